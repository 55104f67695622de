#include "train/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <bit>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace starling {
namespace {

class Safetensors : public ::testing::Test {
 protected:
  Safetensors() { file_ = folder_ / "model.safetensors"; }

  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(file_, std::ios::binary).rdbuf();
    return text.str();
  }

  void put(const std::string& header, const std::string& data) {
    put_raw(std::string(reinterpret_cast<const char*>(&length_of(header)), 8) + header + data);
  }

  void put_raw(const std::string& bytes) { std::ofstream(file_, std::ios::binary) << bytes; }

  std::string refusal() const {
    try {
      read_safetensors(file_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  void expect_refusal(const std::string& why) const {
    const std::string line = refusal();
    EXPECT_NE(line.find(file_.string()), std::string::npos) << "got: " << line;
    EXPECT_NE(line.find(why), std::string::npos) << "got: " << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << "more than one line: " << line;
  }

  std::size_t files_in_folder() const {
    const std::filesystem::directory_iterator all(folder_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  std::filesystem::path file_;

 private:
  const std::uint64_t& length_of(const std::string& header) {
    length_ = header.size();
    return length_;
  }
  std::uint64_t length_ = 0;
};

const std::vector<float> kSix = {1.5F, -2, 0, 1e-42F, 3e38F, -0.0F};
const std::vector<float> kOne = {42};

TEST_F(Safetensors, ComeBackBitForBitInTheOrderWritten) {
  const std::vector<NamedTensor> tensors = {{"z.weight", {2, 3}, kSix}, {"a.bias", {1}, kOne}};
  const std::map<std::string, std::string> metadata = {{"system", "pairwise"},
                                                       {"note", "a \"quoted\"\nline, π"}};
  write_safetensors(file_, tensors, metadata);
  const TensorFile read = read_safetensors(file_);
  ASSERT_EQ(read.tensors.size(), 2U);
  EXPECT_EQ(read.tensors[0].name, "z.weight");
  EXPECT_EQ(read.tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
  const auto& values = std::get<std::vector<float>>(read.tensors[0].values);
  ASSERT_EQ(values.size(), kSix.size());
  for (std::size_t i = 0; i < kSix.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(kSix[i]));
  }
  EXPECT_EQ(read.tensors[1].name, "a.bias");
  EXPECT_EQ(std::get<std::vector<float>>(read.tensors[1].values), kOne);
  EXPECT_EQ(read.metadata, metadata);
}

TEST_F(Safetensors, FindTensorsByName) {
  const std::vector<NamedTensor> tensors = {{"one", {1}, kOne}};
  write_safetensors(file_, tensors, {});
  const TensorFile read = read_safetensors(file_);
  ASSERT_NE(read.find("one"), nullptr);
  EXPECT_EQ(read.find("one")->name, "one");
  EXPECT_EQ(read.find("two"), nullptr);
}

TEST_F(Safetensors, MayHoldNoTensorsEmptyTensorsAndSingleNumbers) {
  write_safetensors(file_, {}, {});
  EXPECT_TRUE(read_safetensors(file_).tensors.empty());

  const std::vector<NamedTensor> tensors = {
      {"none", {0}, {}}, {"flat", {3, 0, 2}, {}}, {"number", {}, kOne}, {"late", {0}, {}}};
  write_safetensors(file_, tensors, {});
  const TensorFile read = read_safetensors(file_);
  ASSERT_EQ(read.tensors.size(), 4U);
  EXPECT_EQ(read.find("flat")->shape, (std::vector<std::int64_t>{3, 0, 2}));
  EXPECT_TRUE(std::get<std::vector<float>>(read.find("flat")->values).empty());
  EXPECT_TRUE(read.find("number")->shape.empty());
  EXPECT_EQ(std::get<std::vector<float>>(read.find("number")->values), kOne);
}

TEST_F(Safetensors, AreExactlyTheBytesOfTheFormat) {
  const std::vector<NamedTensor> tensors = {{"w", {1}, kOne}};
  write_safetensors(file_, tensors, {{"k", "v"}});
  const std::string header =
      R"({"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string bytes = content();
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  ASSERT_EQ(bytes.size(), 8 + padded + 4);
  EXPECT_EQ(bytes.substr(0, 8), std::string(1, static_cast<char>(padded)) + std::string(7, '\0'));
  EXPECT_EQ(bytes.substr(8, padded), header + std::string(padded - header.size(), ' '));
  EXPECT_EQ(bytes.substr(8 + padded), std::string("\x00\x00\x28\x42", 4));
}

TEST_F(Safetensors, StartTheirDataAtAMultipleOfEightWhateverTheNames) {
  for (std::size_t extra = 0; extra < 9; ++extra) {
    const std::vector<NamedTensor> tensors = {{std::string(1 + extra, 'n'), {1}, kOne}};
    write_safetensors(file_, tensors, {});
    EXPECT_EQ((content().size() - 4) % 8, 0U) << extra;
  }
}

TEST_F(Safetensors, ReplaceAnOlderFileAndLeaveNothingElse) {
  const std::vector<NamedTensor> first = {{"first", {6}, kSix}};
  const std::vector<NamedTensor> second = {{"second", {1}, kOne}};
  write_safetensors(file_, first, {});
  write_safetensors(file_, second, {});
  EXPECT_NE(read_safetensors(file_).find("second"), nullptr);
  EXPECT_EQ(files_in_folder(), 1U);
}

// A full disk, played by a limit on the size of files.
TEST_F(Safetensors, KeepTheOlderFileWhenTheDiskIsFull) {
  const std::vector<NamedTensor> old = {{"old", {1}, kOne}};
  write_safetensors(file_, old, {});

  const std::vector<float> large(100'000);
  const std::vector<NamedTensor> tensors = {{"large", {100'000}, large}};
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{100'000, limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(write_safetensors(file_, tensors, {}), Error);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);

  EXPECT_NE(read_safetensors(file_).find("old"), nullptr);
  EXPECT_EQ(files_in_folder(), 1U);
}

TEST_F(Safetensors, CannotBeWrittenToAFolderThatIsNotThere) {
  try {
    write_safetensors(folder_ / "none" / "model", {}, {});
    ADD_FAILURE() << "written";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No such file or directory"), std::string::npos);
  }
}

TEST_F(Safetensors, CannotBeWrittenWithNamesThatAreNotUtf8) {
  const std::vector<NamedTensor> tensors = {{"\xff\xfe", {1}, kOne}};
  EXPECT_THROW(write_safetensors(file_, tensors, {}), Error);
  EXPECT_THROW(write_safetensors(file_, {}, {{"path", "\xff"}}), Error);
  EXPECT_EQ(files_in_folder(), 0U);
}

using SafetensorsDeathTest = Safetensors;

TEST_F(SafetensorsDeathTest, StopAtAShapeThatDoesNotFitTheValues) {
  const std::vector<NamedTensor> tensors = {{"w", {2, 2}, kSix}};
  EXPECT_DEATH(write_safetensors(file_, tensors, {}), "tensor w has 6 values for a shape of 4");
}

TEST_F(SafetensorsDeathTest, StopAtANameThatIsTaken) {
  const std::vector<NamedTensor> twice = {{"w", {1}, kOne}, {"w", {1}, kOne}};
  EXPECT_DEATH(write_safetensors(file_, twice, {}), "the tensor name w is taken");
  const std::vector<NamedTensor> reserved = {{"__metadata__", {1}, kOne}};
  EXPECT_DEATH(write_safetensors(file_, reserved, {}), "the tensor name __metadata__ is taken");
}

// As PyTorch's batch norm counters are, here at a position that is no multiple of eight.
TEST_F(Safetensors, OfIntegersAreReadEvenIfUnaligned) {
  put(R"({"f":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("i":{"dtype":"I64","shape":[2],"data_offsets":[4,20]}})",
      std::string("\x00\x00\x28\x42", 4) + std::string("\x07\0\0\0\0\0\0\0", 8) +
          std::string(8, '\xff'));
  const TensorFile read = read_safetensors(file_);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(read.find("i")->values),
            (std::vector<std::int64_t>{7, -1}));
  EXPECT_EQ(std::get<std::vector<float>>(read.find("f")->values), kOne);
}

TEST_F(Safetensors, InAnyOrderInTheHeaderAreReadInTheOrderOfTheirData) {
  put(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      std::string("\x00\x00\x28\x42", 4) + std::string(4, '\0'));
  const TensorFile read = read_safetensors(file_);
  EXPECT_EQ(read.tensors[0].name, "b");
  EXPECT_EQ(std::get<std::vector<float>>(read.find("b")->values), kOne);
}

TEST_F(Safetensors, ThatAreMissingOrNoRegularFileAreRefused) {
  expect_refusal("there is no such file");
  std::filesystem::create_directory(file_);
  expect_refusal("not a regular file");
  std::filesystem::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  expect_refusal("not a regular file");
}

TEST_F(Safetensors, CutAnywhereAreRefused) {
  const std::vector<NamedTensor> tensors = {{"w", {2, 3}, kSix}, {"b", {1}, kOne}};
  write_safetensors(file_, tensors, {});
  const std::string whole = content();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put_raw(whole.substr(0, size));
    EXPECT_NE(refusal(), "") << "cut to " << size << " of " << whole.size() << " bytes";
  }
}

// Any byte of the header may be wrong: the file is then refused or still describes exactly its
// data.
TEST_F(Safetensors, WithAnyOneByteOfTheHeaderChangedNeverReadOutOfBounds) {
  const std::vector<NamedTensor> tensors = {{"w", {2, 3}, kSix}, {"b", {1}, kOne}};
  write_safetensors(file_, tensors, {});
  const std::string whole = content();
  for (std::size_t at = 0; at < whole.size() - 28; ++at) {
    for (const char byte : {'\0', '0', '9', '-', ' ', '"', '{', ']', '\xff'}) {
      std::string changed = whole;
      changed[at] = byte;
      put_raw(changed);
      try {
        std::size_t elements = 0;
        for (const StoredTensor& tensor : read_safetensors(file_).tensors) {
          elements += std::get<std::vector<float>>(tensor.values).size();
        }
        EXPECT_EQ(elements, 7U);
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      }
    }
  }
}

TEST_F(Safetensors, WithAHeaderLongerThanTheLimitAreRefusedBeforeAllocating) {
  put_raw(std::string(7, '\0') + "\x7f" + "{}");
  expect_refusal("more than the limit");
}

TEST_F(Safetensors, WithAHeaderLongerThanTheFileAreRefused) {
  put_raw(std::string("\x10\0\0\0\0\0\0\0", 8) + "{}");
  expect_refusal("claims 16 bytes and the file has only 10");
}

TEST_F(Safetensors, WithAHeaderThatIsNotAnObjectOfJsonAreRefused) {
  put("[]", "");
  expect_refusal("does not start with {");
  put("{\"w\":", "");
  expect_refusal("not valid JSON");
  put("{} trailing", "");
  expect_refusal("not valid JSON");
  put("{\"\xff\":1}", "");
  expect_refusal("not valid JSON");
  put("", "");
  expect_refusal("does not start with {");
}

TEST_F(Safetensors, WithADeeplyNestedHeaderAreRefused) {
  put("{\"w\":" + std::string(1'000'000, '['), "");
  expect_refusal("nests too deeply");
}

TEST_F(Safetensors, WithANameTwiceAreRefused) {
  put(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      "1234");
  expect_refusal("has the name \"w\" twice");
}

TEST_F(Safetensors, WithATensorBeyondTheEndAreRefused) {
  put(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "1234");
  expect_refusal("ends at byte 8 of the data, which has only 4");
}

TEST_F(Safetensors, WithATensorThatEndsBeforeItBeginsAreRefused) {
  put(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234");
  expect_refusal("ends before it begins");
}

TEST_F(Safetensors, WithTensorsThatOverlapAreRefused) {
  put(R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("w":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
      "123456789abc");
  expect_refusal("tensor \"w\" overlaps another");
}

TEST_F(Safetensors, WithBytesThatBelongToNoTensorAreRefused) {
  put(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678");
  expect_refusal("gap before its tensor \"w\"");
  put(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "12345678");
  expect_refusal("4 bytes at its end belong to no tensor");
}

TEST_F(Safetensors, WithAShapeThatDoesNotFitTheBytesAreRefused) {
  put(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678");
  expect_refusal("8 bytes, which do not match its shape");
  put(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,5]}})", "12345");
  expect_refusal("5 bytes, which do not match its shape");
}

// 2^32 * 2^32 is 2^64, which an unchecked product takes for 0 elements.
TEST_F(Safetensors, WithAShapeWhoseProductWouldWrapAroundAreRefused) {
  put(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "");
  expect_refusal("do not match its shape");
  // 2^62 elements of 4 bytes are 2^64 bytes: the same trap, one step later.
  put(R"({"w":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", "");
  expect_refusal("do not match its shape");
}

TEST_F(Safetensors, WithSizesThatAreNotWholeNumbersAreRefused) {
  for (const char* extent : {"-1", "1.5", "\"1\"", "null", "99999999999999999999", "1e3"}) {
    put(std::string(R"({"w":{"dtype":"F32","shape":[)") + extent + R"(],"data_offsets":[0,4]}})",
        "1234");
    expect_refusal("something else than sizes");
  }
  put(R"({"w":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", "1234");
  expect_refusal("not a list");
}

TEST_F(Safetensors, WithPositionsThatAreNotTwoWholeNumbersAreRefused) {
  for (const char* offsets : {"[0]", "[0,4,8]", "[-4,0]", "[0,4.0]", "{}", "4"}) {
    put(std::string(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":)") + offsets + "}}", "1234");
    expect_refusal("not two byte positions");
  }
}

TEST_F(Safetensors, OfOtherElementTypesAreRefused) {
  put(R"({"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})", "1234");
  expect_refusal("holds \"BF16\", and only F32 and I64 are supported");
  put(R"({"w":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", "1234");
  expect_refusal("dtype that is not a string");
}

TEST_F(Safetensors, WithMissingOrUnknownFieldsAreRefused) {
  put(R"({"w":{"dtype":"F32","shape":[1]}})", "1234");
  expect_refusal("exactly a dtype, a shape and data_offsets");
  put(R"({"w":7})", "1234");
  expect_refusal("exactly a dtype, a shape and data_offsets");
}

TEST_F(Safetensors, WithMetadataThatIsNotTextAreRefused) {
  put(R"({"__metadata__":{"k":1}})", "");
  expect_refusal("metadata \"k\" is not a string");
  put(R"({"__metadata__":[]})", "");
  expect_refusal("metadata is not an object");
}

TEST_F(Safetensors, WithLineBreaksInANameStillGiveOneLine) {
  put(R"({"evil\n\u001b[31mname":{"dtype":"F32","shape":[9],"data_offsets":[0,4]}})", "1234");
  expect_refusal(R"("evil\n\u001b[31mname")");
}

}  // namespace
}  // namespace starling
