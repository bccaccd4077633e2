// Faults on demand, to see a run survive them: `--inject nan@step=5`, of one rank `kill@step=5,rank=2`.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/world.h"

namespace strata::train {

class Trainer;
struct StepResult;

struct Faults {
  std::set<std::int64_t> nan_at_step;            // a gradient of this step is NaN
  std::set<std::int64_t> spike_at_step;          // this step's loss reads 1000 higher
  std::set<std::int64_t> term_at_step;           // SIGTERM arrives during this step
  std::set<std::int64_t> kill_at_step;           // the process dies by SIGKILL after this step
  std::set<std::int64_t> throw_at_step;          // an error before this step
  std::set<std::int64_t> sleep_at_step;          // this step does not begin before the run fails
  std::set<std::int64_t> bitflip_at_checkpoint;  // one bit of this step's checkpoint flips once it is written
  std::optional<std::int64_t> term_at_save;      // SIGTERM arrives before the N-th file operation of a save
  std::optional<std::int64_t> kill_at_save;      // SIGKILL before the N-th file operation of a save
  std::optional<std::int64_t> full_at_save;      // the disk is full after N bytes of a save
};

// Those of `rank`, from words such as "nan@step=5"; repeatable. InputError names the word, the known ones and
// the nearest.
Faults parse_faults(const std::vector<std::string>& words, int rank = 0);

// Throws or sleeps, if that is due before this step.
void strike_before(const Faults& faults, std::int64_t step, const comm::World& world);
// Between the step's gradients and its update: spoils them, or raises SIGTERM. Every rank calls it.
void strike_during(const Faults& faults, StepResult& r, Trainer& trainer);
// SIGKILL, if that is due behind this step.
void strike_after(const Faults& faults, std::int64_t step);

// Every fault with its meaning, one a line, for --help.
std::string fault_reference();

}  // namespace strata::train
