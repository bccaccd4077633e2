#include "train/faults.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>

#include "base/error.h"
#include "base/field_text.h"
#include "kernels/jobs.h"
#include "train/trainer.h"

namespace strata::train {
namespace {

// everywhere: it falsifies what all ranks have to agree on, so that it cannot strike one of them alone.
struct Known {
  const char* name;
  const char* meaning;
  std::set<std::int64_t> Faults::*steps;
  std::optional<std::int64_t> Faults::*once;
  bool everywhere = false;
};

constexpr Known kKnown[] = {
    {"nan@step", "a gradient of step N is NaN", &Faults::nan_at_step, nullptr, true},
    {"spike@step", "the loss of step N reads 1000 higher", &Faults::spike_at_step, nullptr, true},
    {"term@step", "SIGTERM arrives during step N", &Faults::term_at_step, nullptr},
    {"kill@step", "SIGKILL after step N", &Faults::kill_at_step, nullptr},
    {"throw@step", "an error before step N", &Faults::throw_at_step, nullptr},
    {"sleep@step", "step N never begins", &Faults::sleep_at_step, nullptr},
    {"bitflip@checkpoint", "one bit of step N's checkpoint flips", &Faults::bitflip_at_checkpoint, nullptr,
     true},
    {"term@save", "SIGTERM arrives before the N-th file operation of a save", nullptr, &Faults::term_at_save},
    {"kill@save", "SIGKILL before the N-th file operation of a save", nullptr, &Faults::kill_at_save},
    {"full@save", "the disk is full after N bytes of a save", nullptr, &Faults::full_at_save},
};

const Known& find(const std::string& name) {
  std::string all;
  const Known* nearest = &kKnown[0];
  for (const Known& k : kKnown) {
    if (name == k.name) return k;
    if (edit_distance(k.name, name) < edit_distance(nearest->name, name)) nearest = &k;
    all += concat(all.empty() ? "" : ", ", k.name);
  }
  throw InputError(
      concat("--inject: \"", name, "\" is not a fault, nearest is ", nearest->name, ", there are ", all));
}

// A whole number from `least` at the end of a word; none: nothing but that must stand there.
std::optional<std::int64_t> number(const std::string& text, std::int64_t least) {
  std::int64_t n = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || stop != text.data() + text.size() || n < least) return std::nullopt;
  return n;
}

}  // namespace

Faults parse_faults(const std::vector<std::string>& words, int rank) {
  constexpr std::string_view kRank = ",rank=";
  Faults faults;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('='), comma = word.find(',');
    const Known& known = find(word.substr(0, equals));
    const auto n = equals < comma ? number(word.substr(equals + 1, comma - equals - 1), 1) : std::nullopt;
    if (!n)
      throw InputError(concat("--inject: \"", word, "\" needs a number from 1, as in ", known.name, "=5"));
    if (comma != std::string::npos && known.everywhere)
      throw InputError(concat("--inject: \"", word, "\": ", known.name, " strikes all ranks, leave out ",
                              word.substr(comma)));
    if (comma != std::string::npos) {
      const bool names_one = word.compare(comma, kRank.size(), kRank) == 0;
      const auto whose = names_one ? number(word.substr(comma + kRank.size()), 0) : std::nullopt;
      if (!whose)
        throw InputError(
            concat("--inject: \"", word, "\" may end with a rank, as in ", known.name, "=5,rank=1"));
      if (*whose != rank) continue;
    }
    if (known.steps)
      (faults.*known.steps).insert(*n);
    else
      faults.*known.once = *n;
  }
  return faults;
}

void strike_before(const Faults& faults, std::int64_t step, const comm::World& world) {
  if (faults.throw_at_step.count(step)) throw Error(concat("an injected error before step ", step));
  if (!faults.sleep_at_step.count(step)) return;
  while (world.failure().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  throw Error(world.failure());
}

void strike_during(const Faults& faults, StepResult& r, Trainer& trainer) {
  if (faults.nan_at_step.count(r.step)) {
    const Tensor first = trainer.store().buckets().front().grad.slice(0, 1);
    trainer.device().compute().run(kernels::Fill{.y = first, .value = NAN});
    r.grad_norm = trainer.grad_norm();
  }
  if (faults.spike_at_step.count(r.step)) r.loss += 1000, r.lm_loss += 1000;
  if (faults.term_at_step.count(r.step)) std::raise(SIGTERM);
}

void strike_after(const Faults& faults, std::int64_t step) {
  if (faults.kill_at_step.count(step)) std::raise(SIGKILL);
}

std::string fault_reference() {
  std::string text;
  for (const Known& k : kKnown) text += concat(text.empty() ? "" : "; ", k.name, "=N: ", k.meaning);
  return text + "; with \",rank=R\" on that rank alone, but for nan, spike and bitflip";
}

}  // namespace strata::train
