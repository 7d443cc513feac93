#include "fallback/HostBody.h"

#include <filesystem>

namespace openreg::fallback {
namespace {

c10::OperatorName parse(std::string_view op) {
  const auto full = op.find("::") == std::string_view::npos ? c10::str("aten::", op) : std::string(op);
  const auto dot = full.find('.');
  return {full.substr(0, dot), dot == std::string::npos ? "" : full.substr(dot + 1)};
}

// "csrc/aten/native/Gelu.cpp:41" of "/some/where/csrc/aten/native/Gelu.cpp"; outside of csrc/ the file's name alone.
std::string placeOf(const std::source_location& where) {
  const std::string path = where.file_name();
  const auto folder = path.rfind("csrc/");
  return c10::str(folder == std::string::npos ? std::filesystem::path(path).filename().string() : path.substr(folder), ":", where.line());
}

}  // namespace

HostBody::HostBody(std::string_view op, const std::source_location& where)
    : name_(parse(op)), counter_(OperatorCounter::of(name_)), place_(placeOf(where)) {}

void HostBody::applyPolicy(const torch::jit::Stack& arguments) const {
  counter_.describe(c10::Dispatcher::singleton().findSchemaOrThrow(name_.name.c_str(), name_.overload_name.c_str()), arguments);
  counter_.applyPolicy(place_);
}

OperatorOrigin HostBody::origin() const {
  const auto file = std::filesystem::path(place_).filename().string();
  return {Origin::HostBody, c10::str("registered at ", file, ", with a body that runs on the host")};
}

}  // namespace openreg::fallback
