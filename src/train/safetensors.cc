#include "train/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "base/whole_file.h"

namespace starling {

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::uint64_t kAlignmentBytes = 8;
constexpr std::size_t kMaxDimensions = 64;
constexpr const char* kMetadataKey = "__metadata__";

// Element count of a shape, or nothing if it does not fit in 64 bits.
std::optional<std::uint64_t> element_count(std::span<const std::int64_t> shape) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count)) {
      return std::nullopt;
    }
  }
  return count;
}

// Names come from the file, so they are quoted and escaped: an error stays one line.
std::string quoted(const std::string& name) {
  return nlohmann::json(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string reason(int error_number) { return std::generic_category().message(error_number); }

// ---- writing

std::string make_header(std::span<const NamedShape> tensors,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::uint64_t offset = 0;
  for (const NamedShape& tensor : tensors) {
    STARLING_CHECK(tensor.name != kMetadataKey && !header.contains(tensor.name),
                   "the tensor name {} is taken", tensor.name);
    const std::uint64_t end = offset + tensor.elements() * sizeof(float);
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((kAlignmentBytes - (kLengthBytes + text.size()) % kAlignmentBytes) % kAlignmentBytes,
              ' ');
  return text;
}

// ---- reading

struct Entry {
  std::string name;
  bool is_float = true;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : file_(file) {}

  TensorFile read() {
    open();
    const std::string header = read_header();
    const nlohmann::json json = parse(header);
    TensorFile result;
    std::vector<Entry> entries;
    for (const auto& [name, value] : json.items()) {
      if (name == kMetadataKey) {
        result.metadata = read_metadata(value);
      } else {
        entries.push_back(read_entry(name, value));
      }
    }
    check_layout(entries);
    for (Entry& entry : entries) result.tensors.push_back(read_tensor(std::move(entry)));
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(fmt::format("cannot load {}: {}", file_.string(), why),
                "check the path, or save or download the model again");
  }

  void open() {
    // Opening a pipe would wait for a writer, and a folder opens but cannot be read.
    std::error_code error;
    const auto status = std::filesystem::status(file_, error);
    if (status.type() == std::filesystem::file_type::not_found) refuse("there is no such file");
    if (error) refuse(error.message());
    if (!std::filesystem::is_regular_file(status)) refuse("it is not a regular file");
    errno = 0;
    stream_.open(file_, std::ios::binary);
    if (!stream_) refuse(reason(errno));
    stream_.seekg(0, std::ios::end);
    const auto size = static_cast<std::streamoff>(stream_.tellg());
    stream_.seekg(0);
    if (size < 0) refuse("its size is unknown");
    file_bytes_ = static_cast<std::uint64_t>(size);
  }

  void read_into(Bytes bytes) {
    const auto wanted = static_cast<std::streamsize>(bytes.size());
    if (!stream_.read(reinterpret_cast<char*>(bytes.data()), wanted)) {
      refuse("it could not be read to its end");
    }
  }

  std::string read_header() {
    std::uint64_t length = 0;
    if (file_bytes_ < kLengthBytes) refuse("it is too short for a safetensors file");
    read_into(object_bytes(length));
    if (length > kMaxHeaderBytes) {
      refuse(fmt::format("its header claims {} bytes, more than the limit of {}", length,
                         kMaxHeaderBytes));
    }
    if (length > file_bytes_ - kLengthBytes) {
      refuse(fmt::format("its header claims {} bytes and the file has only {} in all", length,
                         file_bytes_));
    }
    std::string header(static_cast<std::size_t>(length), '\0');
    read_into(std::as_writable_bytes(std::span(header)));
    if (!header.starts_with('{')) refuse("its header does not start with {");
    data_bytes_ = file_bytes_ - kLengthBytes - length;
    return header;
  }

  // A name that occurs twice would silently hide the first one, and a header nests three levels,
  // not thousands.
  nlohmann::json parse(const std::string& header) const {
    std::vector<std::set<std::string>> keys;
    const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
      using Event = nlohmann::json::parse_event_t;
      if (depth > 3) refuse("its header nests too deeply");
      if (event == Event::object_start) keys.emplace_back();
      if (event == Event::object_end) keys.pop_back();
      if (event == Event::key) {
        const auto& key = value.get_ref<const std::string&>();
        if (!keys.back().insert(key).second) {
          refuse(fmt::format("its header has the name {} twice", quoted(key)));
        }
      }
      return true;
    };
    try {
      return nlohmann::json::parse(header, watch);
    } catch (const nlohmann::json::parse_error& error) {
      refuse(fmt::format("its header is not valid JSON at byte {}", error.byte));
    }
  }

  std::map<std::string, std::string> read_metadata(const nlohmann::json& value) const {
    if (!value.is_object()) refuse("its metadata is not an object");
    std::map<std::string, std::string> metadata;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse(fmt::format("its metadata {} is not a string", quoted(key)));
      metadata[key] = text.get<std::string>();
    }
    return metadata;
  }

  Entry read_entry(const std::string& name, const nlohmann::json& value) const {
    const auto bad = [&](const std::string& why) {
      refuse(fmt::format("its tensor {} {}", quoted(name), why));
    };
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets") || value.size() != 3) {
      bad("does not have exactly a dtype, a shape and data_offsets");
    }
    Entry entry;
    entry.name = name;
    const auto& dtype = value["dtype"];
    entry.is_float = dtype == "F32";
    if (!entry.is_float && dtype != "I64") {
      bad(dtype.is_string() ? fmt::format("holds {}, and only F32 and I64 are supported",
                                          quoted(dtype.get<std::string>()))
                            : "has a dtype that is not a string");
    }

    const auto& shape = value["shape"];
    if (!shape.is_array() || shape.size() > kMaxDimensions) {
      bad(fmt::format("has a shape that is not a list of at most {} sizes", kMaxDimensions));
    }
    for (const auto& extent : shape) {
      if (!extent.is_number_unsigned() ||
          extent.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
        bad("has a shape with something else than sizes in it");
      }
      entry.shape.push_back(extent.get<std::int64_t>());
    }

    const auto& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      bad("has data_offsets that are not two byte positions");
    }
    entry.begin = offsets[0].get<std::uint64_t>();
    entry.end = offsets[1].get<std::uint64_t>();
    if (entry.begin > entry.end) bad("ends before it begins");
    if (entry.end > data_bytes_) {
      bad(fmt::format("ends at byte {} of the data, which has only {} (is the file truncated?)",
                      entry.end, data_bytes_));
    }
    const std::uint64_t element_bytes = entry.is_float ? sizeof(float) : sizeof(std::int64_t);
    const std::uint64_t size_bytes = entry.end - entry.begin;
    const auto count = element_count(entry.shape);
    if (!count || size_bytes % element_bytes != 0 || *count != size_bytes / element_bytes) {
      bad(fmt::format("has {} bytes, which do not match its shape", size_bytes));
    }
    return entry;
  }

  // The format wants every byte of data to belong to exactly one tensor. This also keeps a small
  // file from unfolding into a large one, by many tensors that share their bytes.
  void check_layout(std::vector<Entry>& entries) const {
    std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
    std::uint64_t end = 0;
    for (const Entry& entry : entries) {
      if (entry.begin < end) {
        refuse(fmt::format("its tensor {} overlaps another", quoted(entry.name)));
      }
      if (entry.begin > end) {
        refuse(fmt::format("there is a gap before its tensor {}", quoted(entry.name)));
      }
      end = entry.end;
    }
    if (end != data_bytes_) {
      refuse(fmt::format("{} bytes at its end belong to no tensor", data_bytes_ - end));
    }
  }

  // Entries are contiguous and in order by now, so the stream stands at each one's first byte.
  StoredTensor read_tensor(Entry entry) {
    const std::uint64_t size_bytes = entry.end - entry.begin;
    StoredTensor tensor{std::move(entry.name), std::move(entry.shape), {}};
    if (!entry.is_float) tensor.values.emplace<std::vector<std::int64_t>>();
    std::visit(
        [&]<class T>(std::vector<T>& values) {
          values.resize(static_cast<std::size_t>(size_bytes / sizeof(T)));
          if (!values.empty()) read_into(writable_bytes(std::span(values)));
        },
        tensor.values);
    return tensor;
  }

  std::filesystem::path file_;
  std::ifstream stream_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t data_bytes_ = 0;
};

}  // namespace

namespace {

std::string checked_header(const std::filesystem::path& file, std::span<const NamedShape> tensors,
                           const std::map<std::string, std::string>& metadata) {
  std::string header;
  try {
    header = make_header(tensors, metadata);
  } catch (const nlohmann::json::type_error&) {
    throw Error(
        fmt::format("cannot save {}: a tensor name or metadata is not UTF-8", file.string()));
  }
  if (header.size() > kMaxHeaderBytes) {
    throw Error(fmt::format(
        "cannot save {}: its header of names and metadata has {} bytes, the format allows {}",
        file.string(), header.size(), kMaxHeaderBytes));
  }
  return header;
}

}  // namespace

std::size_t NamedShape::elements() const {
  const auto count = element_count(shape);
  STARLING_CHECK(count, "tensor {} has a shape that is none", name);
  return static_cast<std::size_t>(*count);
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file,
                                     std::vector<NamedShape> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(std::move(tensors)), pending_(file) {
  const std::string header = checked_header(file, tensors_, metadata);
  const std::uint64_t length = header.size();
  pending_.write(std::as_bytes(std::span(&length, 1)));
  pending_.write(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::add(std::span<const float> values) {
  const NamedShape& next = tensors_.at(written_++);
  STARLING_CHECK(next.elements() == values.size(), "tensor {} has {} values for a shape of {}",
                 next.name, values.size(), next.elements());
  pending_.write(bytes_of(values));
}

void SafetensorsWriter::commit() {
  STARLING_CHECK(written_ == tensors_.size(), "{} of {} tensors are there", written_,
                 tensors_.size());
  pending_.commit();
}

void write_safetensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<NamedShape> shapes;
  for (const NamedTensor& tensor : tensors) shapes.push_back({tensor.name, tensor.shape});
  SafetensorsWriter writer(file, std::move(shapes), metadata);
  for (const NamedTensor& tensor : tensors) writer.add(tensor.values);
  writer.commit();
}

const StoredTensor* TensorFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &StoredTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

TensorFile read_safetensors(const std::filesystem::path& file) { return Reader(file).read(); }

}  // namespace starling
