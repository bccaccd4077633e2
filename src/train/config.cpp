// The lists of keys of a run's sections.
#include "train/config.h"

namespace strata::train {

void RunSection::fields(FieldVisitor& v) {
  v("name", name, "name of the run", not_empty());
  v("output_dir", output_dir, "folder of the run; unset: runs/NAME", not_empty());
  v("seed", seed, "seed of the initial weights and of the order of the data", at_least(0));
}

void RouterSection::fields(FieldVisitor& v) {
  v("bias_update_speed", bias_update_speed, "step of loss-free balancing; 0: off", at_least(0));
}

void TrainingSection::fields(FieldVisitor& v) {
  v("seq_length", seq_length, "tokens per sequence", dimension());
  v("micro_batch_size", micro_batch_size, "sequences per forward pass", dimension());
  v("global_batch_size", global_batch_size, "sequences per step; unset: micro_batch_size", dimension());
  v("train_iters", train_iters, "steps of the run; unset: 1000, or as train_tokens says", count_from(1));
  v("train_tokens", train_tokens, "tokens of the run, rounded up to whole steps, instead of train_iters",
    count_from(1));
  v("eval_interval", eval_interval, "steps between evaluations; 0: only after the last step", count_from(0));
  v("eval_iters", eval_iters, "batches of global_batch_size sequences per evaluation", count_from(1));
}

void PrecisionSection::fields(FieldVisitor& v) { v("compute", compute, "type of activations and matrices"); }

void RecomputeSection::fields(FieldVisitor& v) {
  v("granularity", granularity, "what the backward pass computes again instead of keeping");
  v("modules", modules, "activations to compute again",
    only(granularity == Granularity::Selective, "granularity is selective"));
}

void BackendSection::fields(FieldVisitor& v) {
  v("device", device, "where to compute");
  v("threads", threads, "CPU threads of a rank; 0: all, divided over the ranks of a process",
    between(0, 4096));
  v("comm", comm, "what carries messages between ranks; auto: mpi where mpirun started several");
  v("threads_ranks", threads_ranks, "ranks, as threads of this process",
    between(1, 1024).only(comm == Comm::Threads, "comm is threads"));
  v("check_collectives", check_collectives,
    "compare what ranks do together before they do it, to find faults in strata; slower");
}

void ResilienceSection::fields(FieldVisitor& v) {
  v("nan", nan,
    "what a step with a loss or gradient norm that is not finite does: be skipped, or stop the run");
  v("max_consecutive_skips", max_consecutive_skips, "skipped steps in a row that stop the run",
    count_from(1));
  v("spike_action", spike_action, "what a loss far above the last ones does: be logged, or its step skipped");
  v("spike_sigma", spike_sigma, "standard deviations above the mean that make a spike; 0: off", at_least(0));
  v("spike_window", spike_window, "steps whose losses are compared with", between(2, 1e6));
  v("exit_duration_in_mins", exit_duration_in_mins, "minutes after which the run saves and ends", above(0));
  v("watchdog_seconds", watchdog_seconds,
    "seconds that a rank may wait for another before the run ends, saying who waits for what; 0: any",
    at_least(0));
}

void LoggingSection::fields(FieldVisitor& v) {
  v("log_interval", log_interval, "steps between progress lines", count_from(1));
  v("metrics_interval", metrics_interval,
    "steps between closer looks: expert loads, depth attention, output norms, memory; 0: none",
    count_from(0));
  v("jsonl", jsonl, "file of metrics, in the run's folder", not_empty());
  v("tensorboard_dir", tensorboard_dir, "folder of TensorBoard event files, in the run's folder; unset: none",
    not_empty());
  v("peak_flops", peak_flops,
    "operations per second of the machine, from 1e6, to tell the share; unset: measured; 0: not told",
    at_least(0));
}

void ProfileSection::fields(FieldVisitor& v) {
  v("steps", steps, "the first and the last step whose time is told apart; unset: none", count_from(1));
  v("ranks", ranks, "ranks whose time is told; unset: all",
    between(0, 1e6).only(steps.has_value(), "steps is set"));
}

void RunConfig::fields(FieldVisitor& v) {
  v("model_type", model_type, "whose configuration this is, to tell it from Hugging Face's");
  v("run", run, "the run");
  v("model", model, "the model");
  v("router", router, "expert balancing");
  v("data", data, "the data");
  v("training", training, "batches and length");
  v("optimizer", optimizer, "the optimiser");
  v("lr_schedule", lr_schedule, "learning rate");
  v("precision", precision, "number formats");
  v("recompute", recompute, "activation recomputation");
  v("parallel", parallel, "how the model is spread over ranks");
  v("backend", backend, "devices");
  v("checkpoint", checkpoint, "checkpoints");
  v("resilience", resilience, "faults, and when to stop");
  v("logging", logging, "progress and metrics");
  v("profile", profile, "where the time of some steps goes");
}

}  // namespace strata::train
