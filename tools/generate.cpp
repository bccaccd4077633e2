// Text from a trained model: the prompt in large chunks, then one token at a time with what earlier ones left
// kept.
#include <omp.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_config.h"
#include "base/log.h"
#include "data/tokenizer.h"
#include "model/decoder.h"
#include "model/sampling.h"
#include "tools/commands.h"
#include "tools/open_model.h"
#include "train/weights.h"

namespace strata::tools {
namespace {

using Clock = std::chrono::steady_clock;
using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kPromptChunk = 1024;  // tokens: what a prompt's activations take does not grow beyond

std::string read_prompt(const GenerateArguments& a) {
  if (a.prompt) return *a.prompt;
  std::ifstream file(a.prompt_file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw InputError(concat("cannot read ", a.prompt_file, ": ", std::strerror(errno)));
  return text;
}

Ids prompt_ids(const std::string& text, const data::Tokenizer& tokenizer, std::int64_t vocabulary) {
  std::vector<std::int32_t> encoded;
  tokenizer.encode(text, encoded);
  if (encoded.empty()) throw InputError("the prompt is empty; at least one token is needed");
  for (std::size_t i = 0; i < encoded.size(); ++i)
    if (encoded[i] >= vocabulary)
      throw InputError(concat("token ", i, " of the prompt is ", encoded[i], "; token ids are 0 to ",
                              vocabulary - 1, " (model.vocab_size)"));
  return {encoded.begin(), encoded.end()};
}

void check_memory(std::int64_t prompt, std::int64_t more, std::int64_t bytes_per_token) {
  const double have = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  const double need = double(prompt + more) * double(bytes_per_token);
  if (need > have)
    throw InputError(concat("a prompt of ", prompt, " tokens and ", more, " new ones take ", need / 1e9,
                            " GB to remember, and this machine has ", have / 1e9, " GB"));
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Generated {
  Ids ids;
  std::string text;
  bool ended = false;  // by the end of a document
  double prompt_seconds = 0, seconds = 0;
};

class Generator {
 public:
  Generator(const train::ModelSource& source, const data::Tokenizer& tokenizer, std::int64_t capacity)
      : tokenizer_(tokenizer),
        stage_(source.config.model, {0, int(source.config.model.num_hidden_layers), true, true}, store_),
        decoder_(stage_, device_, capacity) {
    store_.allocate(device_, source.config.precision.dtype(), false);
    stage_.allocate(device_);
    train::load_weights(store_, source.weights);
  }

  // `on_text` is given the text of every token as it comes.
  template <class F>
  Generated run(const Ids& prompt, std::int64_t count, model::Sampler& sampler, F&& on_text) {
    Generated g;
    Clock::time_point start = Clock::now();
    std::vector<double> logits = feed_all(prompt);
    g.prompt_seconds = seconds_since(start);
    start = Clock::now();
    while (true) {
      // Ids beyond the tokenizer's stand for nothing.
      logits.resize(std::min<std::size_t>(logits.size(), tokenizer_.vocabulary()));
      const std::int64_t id = sampler.next(logits);
      if ((g.ended = id == tokenizer_.end_of_document())) break;
      g.ids.push_back(id);
      const std::string text = tokenizer_.decode(id);
      g.text += text;
      on_text(text);
      if (std::int64_t(g.ids.size()) == count) break;
      logits = feed({id});
    }
    g.seconds = seconds_since(start);
    return g;
  }

  std::int64_t cache_bytes() const { return decoder_.cache_bytes(); }

 private:
  std::vector<double> feed(const Ids& ids) { return to_host(device_, decoder_.feed(ids), "logits"); }
  std::vector<double> feed_all(const Ids& ids) {
    std::vector<double> logits;
    for (auto from = ids.begin(); from != ids.end();) {
      const auto to = from + std::min<std::ptrdiff_t>(kPromptChunk, ids.end() - from);
      logits = feed({from, to});
      from = to;
    }
    return logits;
  }

  const data::Tokenizer& tokenizer_;
  device::Device device_;
  ParameterStore store_;
  model::Stage stage_;
  model::Decoder decoder_;
};

void print_json(const Generated& g, std::int64_t prompt, std::int64_t cache_bytes) {
  const nlohmann::ordered_json j{{"text", g.text},
                                 {"tokens", g.ids},
                                 {"end_of_document", g.ended},
                                 {"prompt_tokens", prompt},
                                 {"prompt_seconds", g.prompt_seconds},
                                 {"seconds", g.seconds},
                                 {"cache_bytes", cache_bytes}};
  // Text may end inside a character.
  std::printf("%s\n", j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace

int generate(const GenerateArguments& a) {
  model::Sampler sampler({a.temperature, a.top_k, a.top_p}, a.seed);
  const train::ModelSource source = open_model(a);
  const train::RunConfig& config = source.config;
  if (config.backend.threads > 0) omp_set_num_threads(int(config.backend.threads));
  const auto tokenizer = data::make_tokenizer(config.data.tokenizer.value_or(data::TokenizerKind::Byte));
  const Ids prompt = prompt_ids(read_prompt(a), *tokenizer, config.model.vocab_size);
  const std::int64_t count = std::int64_t(prompt.size());
  check_memory(count, a.max_new_tokens,
               model::Decoder::bytes_per_token(config.model, config.precision.dtype()));
  Generator generator(source, *tokenizer, count + a.max_new_tokens);
  const Generated g = generator.run(prompt, a.max_new_tokens, sampler, [&](const std::string& text) {
    if (a.json) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  if (a.json)
    print_json(g, count, generator.cache_bytes());
  else
    std::putchar('\n');
  std::fflush(stdout);  // before the line about it
  char line[200];
  std::snprintf(line, sizeof line,
                "prompt: %lld tokens, %.0f tok/s; new: %zu tokens, %.0f tok/s; cache %.1f MB",
                static_cast<long long>(count), double(count) / g.prompt_seconds, g.ids.size(),
                double(g.ids.size()) / g.seconds, double(generator.cache_bytes()) / 1e6);
  log::info(line);
  return 0;
}

}  // namespace strata::tools
