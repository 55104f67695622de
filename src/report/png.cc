#include <cairo.h>
#include <fmt/format.h>
#include <librsvg/rsvg.h>

#include <memory>

#include "base/error.h"
#include "report/plot.h"

namespace starling {

namespace {

constexpr double kPixelsPerUnit = 2;

template <auto kRelease>
struct Release {
  template <class T>
  void operator()(T* object) const {
    kRelease(object);
  }
};

}  // namespace

void write_png(const std::string& svg, const std::filesystem::path& file) {
  const auto fail = [&](const char* why) {
    throw Error(fmt::format("cannot draw {}: {}", file.string(), why));
  };
  GError* error = nullptr;
  const std::unique_ptr<RsvgHandle, Release<g_object_unref>> drawing(
      rsvg_handle_new_from_data(reinterpret_cast<const guint8*>(svg.data()), svg.size(), &error));
  if (!drawing) fail(error->message);
  double width = 0, height = 0;
  rsvg_handle_get_intrinsic_size_in_pixels(drawing.get(), &width, &height);
  const RsvgRectangle area{0, 0, width * kPixelsPerUnit, height * kPixelsPerUnit};
  const std::unique_ptr<cairo_surface_t, Release<cairo_surface_destroy>> surface(
      cairo_image_surface_create(CAIRO_FORMAT_ARGB32, static_cast<int>(area.width),
                                 static_cast<int>(area.height)));
  const std::unique_ptr<cairo_t, Release<cairo_destroy>> pen(cairo_create(surface.get()));
  if (!rsvg_handle_render_document(drawing.get(), pen.get(), &area, &error)) fail(error->message);
  const cairo_status_t status = cairo_surface_write_to_png(surface.get(), file.c_str());
  if (status != CAIRO_STATUS_SUCCESS) fail(cairo_status_to_string(status));
}

}  // namespace starling
