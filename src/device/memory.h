// Device memory: a caching allocator with size classes, counted by purpose.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace strata::device {

enum class Purpose : std::uint8_t { Parameters, Gradients, OptimizerState, Activations, Data };
constexpr int kPurposes = 5;
constexpr std::string_view name_of(Purpose p) {
  constexpr std::array<std::string_view, kPurposes> names{"parameters", "gradients", "optimizer state",
                                                          "activations", "data"};
  return names[int(p)];
}

struct MemoryUse {
  std::int64_t now = 0, peak = 0;  // bytes handed out, before rounding to a size class
};

class Allocator {
 public:
  // `reserve_only`: addresses without memory behind them, for counting alone.
  explicit Allocator(bool reserve_only = false) : reserve_only_(reserve_only), open_(!reserve_only) {}
  Allocator(const Allocator&) = delete;
  ~Allocator();

  // 64-byte aligned; contents undefined. Small sizes are rounded to a class (12.5 % apart at most) and
  // reused.
  void* allocate(std::int64_t bytes, Purpose purpose);
  void release(void* p, std::int64_t bytes, Purpose purpose);

  // Guard mode: memory is readable and writable only while open.
  void set_open(bool open);

  MemoryUse use(Purpose purpose) const { return use_[int(purpose)]; }
  MemoryUse total() const { return total_; }
  std::int64_t reserved() const { return reserved_; }
  // Forgets the peaks so far; peaks restart from what is in use now.
  void reset_peaks();

 private:
  struct Arena {
    std::byte* base;
    std::size_t bytes, used;
  };
  static std::int64_t rounded(std::int64_t bytes);
  void* carve(std::int64_t bytes);

  std::vector<Arena> arenas_;
  std::map<std::int64_t, std::vector<void*>> free_;  // by rounded size
  std::array<MemoryUse, kPurposes> use_{};
  MemoryUse total_;
  std::int64_t reserved_ = 0;
  bool reserve_only_, open_;
};

}  // namespace strata::device
