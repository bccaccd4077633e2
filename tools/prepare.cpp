// Text and JSONL files into a token file, with progress on stderr and exact counts on stdout.
#include "data/prepare.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <thread>

#include "base/error.h"
#include "base/field_text.h"
#include "base/log.h"
#include "tools/commands.h"

namespace strata::tools {
namespace {

using Clock = std::chrono::steady_clock;

data::TokenizerKind tokenizer_of(const std::string& word) {
  constexpr auto kNames = enum_names(data::TokenizerKind{});
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == word) return data::TokenizerKind(i);
  throw InputError(concat("prepare: --tokenizer is \"", word, "\", allowed is ", choice_text(kNames)));
}

// Says every few seconds how far the work is.
class Progress {
 public:
  void operator()(const data::PrepareCounts& c) {
    constexpr double kPause = 2;  // seconds
    const Clock::time_point now = Clock::now();
    if (std::chrono::duration<double>(now - last_).count() < kPause) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double done = double(c.bytes_read), all = double(c.bytes_to_read);
    char text[160];
    std::snprintf(text, sizeof text, "%.1f of %.1f MB, %lld %s, %.1f M tokens, %.1f MB/s, %.0f s left",
                  done / 1e6, all / 1e6, static_cast<long long>(c.documents),
                  c.documents == 1 ? "document" : "documents", double(c.tokens) / 1e6, done / 1e6 / seconds,
                  std::max(0.0, all - done) / done * seconds);
    log::info(text);
  }

 private:
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

}  // namespace

int prepare(const PrepareArguments& a) {
  const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  Progress progress;
  const data::PrepareCounts counts = data::prepare({.inputs = a.inputs,
                                                    .output = a.output,
                                                    .tokenizer = tokenizer_of(a.tokenizer),
                                                    .jsonl_key = a.jsonl_key,
                                                    .append_eod = a.append_eod,
                                                    .workers = a.workers > 0 ? a.workers : cores,
                                                    .overwrite = a.overwrite},
                                                   [&](const auto& c) { progress(c); });
  std::cout << "documents        " << counts.documents << "\nempty, left out  " << counts.empty
            << "\ntokens           " << counts.tokens << "\nbytes of text    " << counts.bytes
            << "\nwritten          " << a.output << ".bin, " << a.output << ".idx\n";
  return 0;
}

}  // namespace strata::tools
