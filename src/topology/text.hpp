// Small pieces of text handling that the readers share: trimming, splitting, numbers within limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace twohop::topology {

std::string_view trim(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);  // keeps empty parts
std::vector<std::string_view> words_of(std::string_view text);               // at spaces and tabs; no empty parts
std::vector<std::string_view> lines_of(std::string_view text);               // without \n and \r

/// All of the text as a decimal number in [low, high]; nothing otherwise.
std::optional<int64_t> parse_int(std::string_view text, int64_t low, int64_t high);
/// All of the text as a hexadecimal number, with or without 0x.
std::optional<uint64_t> parse_hex(std::string_view text);
/// The number that the text begins with ("16.0 GT/s PCIe"), finite and not negative; nothing otherwise.
std::optional<double> leading_number(std::string_view text);

/// The shortest text without an exponent that leading_number reads as `value`.
std::string plain_number(double value);

/// A piece of foreign text for a message: short, and without bytes that a terminal would act on.
std::string shown(std::string_view text);

/// The text with each byte that is no part of well-formed UTF-8 replaced by '?'.
std::string as_utf8(std::string_view text);

bool all_digits(std::string_view text);  // and at least one

}  // namespace twohop::topology
