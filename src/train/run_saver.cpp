#include "train/run_saver.h"

#include <algorithm>
#include <csignal>

#include "train/checkpointing.h"

namespace strata::train {
namespace {

checkpoint::SaveFaults faults_of_save(const Faults& f, std::int64_t step) {
  checkpoint::SaveFaults faults;
  if (f.term_at_save)
    faults.before_call = [left = *f.term_at_save](std::string_view, const std::string&) mutable {
      if (--left == 0) std::raise(SIGTERM);
    };
  if (f.kill_at_save) faults.kill_at_call = *f.kill_at_save - 1;
  if (f.full_at_save) faults.full_after_bytes = *f.full_at_save;
  faults.flip_bit = f.bitflip_at_checkpoint.count(step) > 0;
  return faults;
}

}  // namespace

RunSaver::RunSaver(Trainer& trainer, checkpoint::CheckpointStore& store,
                   const std::vector<ValueOrigin>& origins, const Faults& faults, Report report)
    : trainer_(trainer),
      store_(store),
      faults_(faults),
      report_(std::move(report)),
      config_json_(config_json(trainer.config())),
      origins_json_(origins_json(origins)),
      saver_(store, trainer.config().checkpoint.async_save, &trainer.mesh().all()) {}

void RunSaver::save(const Progress& progress) {
  store_.set_faults(faults_of_save(faults_, progress.step));
  saver_.save(capture(trainer_, progress, config_json_, origins_json_));
}

// All ranks learn of a save that failed, and of a folder that cannot be made. A rank that failed otherwise
// ends the run.
template <class Action>
void RunSaver::attempt(Action&& action) {
  const auto report = [&](const Error& e) {
    report_(concat(e.what(), "; the run goes on, the next save tries again"));
  };
  try {
    action();
  } catch (const checkpoint::SaveFailed& e) {
    report(e);
  } catch (const InputError& e) {
    report(e);
  }
}

void RunSaver::settle() {
  attempt([&] { saver_.finish(); });
}

void RunSaver::on_the_way(const Progress& progress) {
  settle();
  attempt([&] { save(progress); });
}

void RunSaver::at_the_end(const Progress& progress, std::int64_t resumed) {
  settle();
  if (std::max(resumed, saver_.durable_step()) != progress.step) save(progress);
  saver_.finish();
}

}  // namespace strata::train
