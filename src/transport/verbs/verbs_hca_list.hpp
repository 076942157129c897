// Which devices does TWOHOP_IB_HCA allow? NCCL's syntax: [^][=]<hca>[:<port>],... Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace twohop::verbs {

/// A port of a device of this host.
struct HcaPort {
  std::string device;
  int port = 1;
};

/// `^` in front: all but these; `=` in front: whole names, not prefixes. One prefix is for the whole list.
class HcaList {
 public:
  /// "" allows all.
  static Result<HcaList> parse(std::string_view text);

  bool allows(std::string_view device, int port) const;
  /// The items that match none of these ports.
  std::vector<std::string> unmatched(const std::vector<HcaPort>& ports) const;
  bool empty() const { return items_.empty(); }
  /// The position of the first item that selects it, for the order of rails; 0 for exclusions.
  size_t order(std::string_view device, int port) const;

 private:
  struct Item {
    std::string name;
    int port = -1;  // any
  };
  bool matches(const Item& item, std::string_view device, int port) const;

  bool exclude_ = false, exact_ = false;
  std::vector<Item> items_;
};

}  // namespace twohop::verbs
