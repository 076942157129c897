// Text in pictures: how wide it is, about, and what of it fits. Foreign text is made harmless.
#pragma once

#include <string>
#include <vector>

namespace twohop::cli {

/// At 12 pixels; on the wide side.
double text_width(const std::string& text);
/// Cut with "..." where it is wider.
std::string fitting(const std::string& text, double width);
/// In lines of at most this width, broken at spaces.
std::vector<std::string> wrapped(const std::string& text, double width);
/// For XML: markup escaped, control characters and what is not ASCII replaced.
std::string escaped(const std::string& text);

}  // namespace twohop::cli
