// Two binary trees over positions 0 .. n - 1, such that every position is inner in at most one of them: each half of
// the data goes through one tree, and every position sends about as much as it receives.
//
// After P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan"
// (2009). The first tree is in order: counted from 1, odd numbers are leaves, and the height of an even number is that
// of its lowest bit. The second is the first one mirrored (n even) or shifted by one (n odd), so that its inner
// positions are the leaves of the first.
#pragma once

#include <algorithm>
#include <vector>

namespace twohop {

class DoubleTree {
 public:
  explicit DoubleTree(int n) : n_(n) {}

  /// -1 at the root.
  int parent(int tree, int position) const {
    const int up = parent(number(tree, position));
    return up == 0 ? -1 : position_of(tree, up);
  }
  std::vector<int> children(int tree, int position) const {
    const int x = number(tree, position), bit = x & -x;
    std::vector<int> found;
    if (bit > 1) found.push_back(position_of(tree, x - bit / 2));
    int d = bit / 2;
    while (d > 0 && x + d > n_) d /= 2;
    if (d > 0) found.push_back(position_of(tree, x + d));
    return found;
  }
  /// The lowest value of `of` (position) over the subtree.
  template <class Of>
  int lowest(int tree, int position, Of of) const {
    const int x = number(tree, position), bit = x & -x;
    int low = of(position);
    for (int y = x - bit + 1; y <= std::min(n_, x + bit - 1); ++y) low = std::min(low, of(position_of(tree, y)));
    return low;
  }

 private:
  // Numbers count from 1; 0 is none.
  int parent(int x) const {
    const int bit = x & -x, up = (x ^ bit) | (bit << 1);
    return up <= n_ ? up : x ^ bit;
  }
  int number(int tree, int position) const {
    if (tree == 0) return position + 1;
    return n_ % 2 == 0 ? n_ - position : (position + n_ - 1) % n_ + 1;
  }
  int position_of(int tree, int number) const {
    if (tree == 0) return number - 1;
    return n_ % 2 == 0 ? n_ - number : number % n_;
  }

  int n_;
};

}  // namespace twohop
