// Watches the steps that the configuration names and tells where their time went (docs/runs.md).
#pragma once
#include <string>
#include <vector>

#include "train/timeline.h"
#include "train/trainer.h"

namespace strata::train {

class Profile {
 public:
  // Refers to `trainer`. folder: gets timeline.json and summary.json from the first rank. InputError if
  // trainer.config().profile names a rank that is not there.
  Profile(Trainer& trainer, std::string folder);
  ~Profile() {
    watch(false);
    record(false);
  }
  Profile(const Profile&) = delete;

  // Before and behind every step; does nothing where the configuration does not name it. Every rank calls
  // them.
  void begin(std::int64_t step);
  void end();
  // Behind every step and at the end of the run: once all named steps are behind, or the run is over, the
  // lines to tell, on the first rank. Every rank calls it.
  std::vector<std::string> finish(bool run_is_over);

 private:
  void watch(bool on);
  void record(bool on);
  std::vector<std::string> tell();

  Trainer& trainer_;
  const ProfileSection& config_;
  std::string folder_;
  Timeline timeline_;
  std::int64_t zero_ = 0;  // when all ranks began the first step, by this rank's clock
  bool watching_ = false, recording_ = false, told_ = false;
};

}  // namespace strata::train
