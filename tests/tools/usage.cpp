// Help, version, and what wrong usage is told: one sentence on stderr, exit status 2.
#include <gtest/gtest.h>

#include "strata_binary.h"

namespace strata::test {
namespace {

TEST(Usage, VersionAndHelpGoToStdout) {
  const Workplace place;
  const Outcome version = place.strata({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.out, "strata 0.1.0\n");
  const Outcome help = place.strata({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"train", "trace", "config", "plan", "generate", "eval", "prepare", "--version"})
    EXPECT_NE(help.out.find(word), std::string::npos) << word;
  EXPECT_EQ(version.err + help.err, "");
}

struct CommandHelp {
  const char* command;
  std::vector<std::string> options;
};

TEST(Usage, EveryCommandDescribesItsOptions) {
  const Workplace place;
  const CommandHelp all[] = {
      {"train", {"CONFIG", "--set", "--overwrite", "--verbose"}},
      {"trace",
       {"--config", "--weights", "--batch", "--out", "--steps", "--compare", "--tolerance", "--set"}},
      {"config", {"CONFIG", "--set", "--json", "--reference"}},
      {"plan", {"CONFIG", "--world", "--set", "--json"}},
      {"verify-layout", {"CONFIG", "--layouts", "--steps", "--tolerance", "--set", "--json"}},
      {"schedule",
       {"CONFIG", "--world", "--set", "--schedule", "--pipeline", "--virtual", "--micro-batches", "--json"}},
      {"bench", {"step", "ops", "compare"}},
      {"generate",
       {"--config", "--weights", "--checkpoint", "--set", "--prompt", "--prompt-file", "--max-new-tokens",
        "--temperature", "--top-k", "--top-p", "--seed", "--json"}},
      {"eval", {"--config", "--weights", "--checkpoint", "--set", "--data", "--iters", "--json"}},
      {"prepare",
       {"INPUT", "--output", "--tokenizer", "--jsonl-key", "--append-eod", "--workers", "--overwrite"}},
  };
  for (const CommandHelp& c : all) {
    const Outcome help = place.strata({c.command, "--help"});
    EXPECT_EQ(help.status, 0) << c.command;
    EXPECT_EQ(help.err, "") << c.command;
    for (const std::string& option : c.options)
      EXPECT_NE(help.out.find("  " + option), std::string::npos) << c.command << " " << option;
  }
}

const std::string kText = R"(data.train=[{"path": "text"}])";

struct WrongUsage {
  std::vector<std::string> arguments;
  std::string message;
};

const WrongUsage kWrong[] = {
    {{}, "A subcommand is required, see strata --help"},
    {{"trian"},
     "\"trian\" is not a command, nearest is train, there are train, trace, config, verify-layout, plan, "
     "schedule, bench, generate, eval, checkpoint, prepare, plot"},
    {{"plans", "c.json"},
     "\"plans\" is not a command, nearest is plan, there are train, trace, config, verify-layout, plan, "
     "schedule, bench, generate, eval, checkpoint, prepare, plot"},
    {{"train"}, "train: CONFIG is required"},
    {{"train", "none.json"}, "none.json: no such file"},
    {{"train", "a.json", "b.json"}, "train: nothing is expected where \"b.json\" stands"},
    {{"train", "a.json", "plan", "b.json"}, "train: nothing is expected where \"plan\" stands"},
    {{"train", "a.json", "--overwrit"},
     "train: --overwrit is not an option, nearest is --overwrite, there are --help, --set, --overwrite, "
     "--override, --inject, "
     "--verbose"},
    {{"train", "a.json", "--set"}, "train: --set: 1 required KEY=VALUE missing"},
    {{"train", "tiny.json"},
     R"(tiny.json: data.train is required: a list of token files, as in [{"path": "data/corpus"}])"},
    {{"train", "tiny.json", "--set", R"(data.train=[{"path": "none"}])"},
     "data.train[0].path: cannot read none: No such file or directory"},
    {{"train", "tiny.json", "--set", R"(data.train=[{"path": "short"}])"},
     "short.bin has 11 tokens; one window of training.seq_length 32 needs 33"},
    {{"train", "tiny.json", "--set", R"(data.train=[{"path": "text.txt"}])"},
     "data.train[0].path: text.txt is not a token file: it is text; strata prepare makes token files of text "
     "and JSONL"},
    {{"train", "tiny.json", "--set", kText, "--set", "model.vocab_size=256"},
     "command line: model.vocab_size 256 is below the 257 ids of data.tokenizer byte"},
    {{"train", "tiny.json", "--set", kText, "--set", "lr_schedule.lr_warmup_iters=21"},
     "command line: lr_schedule.lr_warmup_iters 21 is above the 20 steps of the schedule"},
    {{"train", "tiny.json", "--set", kText, "--set", "training.train_iters=1"},
     "tiny.json: lr_schedule.lr_warmup_iters 2 is above the 1 steps of the schedule"},
    {{"train", "tiny.json", "--set", R"(data.train=[{"path": "text", "max_epochs": 2}])"},
     "data.train[0].max_epochs is 2, but text.bin has 13 samples of 32 tokens, and the run plans 80 of them, "
     "6.15 "
     "epochs: shorten the run, lower its weight, or raise max_epochs"},
    {{"train", "tiny.json", "--set", kText, "--set", "training.eval_interval=5"},
     "tiny.json: data.validation is required with training.eval_interval 5: token files by name, as in "
     R"({"held_out": {"path": "data/held_out"}})"},
    {{"train", "tiny.json", "--set", kText, "--set", "logging.jsonl=config.json"},
     "logging.jsonl is \"config.json\", but the run's folder has a file of that name; choose another"},
    {{"train", "tiny.json", "--set", kText, "--set", "run.output_dir=text.txt"},
     "run.output_dir: cannot make the folder text.txt: Not a directory"},
    {{"trace"}, "trace: --config is required"},
    {{"trace", "--config"}, "trace: --config: 1 required FILE missing"},
    {{"trace", "--config", "c", "--weights", "w"}, "trace: --batch is required"},
    {{"trace", "--config", "c", "--weights", "w", "--batch", "b"}, "trace: --out or --compare is required"},
    {{"trace", "--config", "c", "--weights", "w", "--batch", "b", "--out", "o", "--tolerance", "1"},
     "trace: --tolerance requires --compare"},
    {{"trace", "--config", "c", "--weights", "w", "--batch", "b", "--compare", "e", "--tolerance", "nan"},
     "trace: --tolerance: nan is not a number from 0"},
    {{"trace", "--config", "c", "--weights", "w", "--batch", "b", "--compare", "e", "--tolerance", "-1"},
     "trace: --tolerance: -1 is not a number from 0"},
    {{"trace", "--config", "c", "--weights", "w", "--batch", "b", "--out", "o", "--steps", "-1"},
     "trace: --steps: Value -1 not in range 0 to 1000000"},
    {{"trace", "--config", "c", "--weights", "w", "--batch", "b", "--out", "o", "--steps", "1", "--steps",
      "2"},
     "trace: --steps: At Most 1 required but received 2"},
    {{"trace", "--config", "tiny.json", "--weights", "w", "--batch", "b", "--compare", "none.safetensors"},
     "cannot read none.safetensors: no such file"},
    {{"trace", "--config", "tiny.json", "--weights", "w", "--batch", "tiny.json", "--out", "o"},
     "tiny.json is not a sound safetensors file: it begins with text, not with the length of a header"},
    {{"config"}, "config: CONFIG or --reference is required"},
    {{"config", "tiny.json", "--reference"}, "config: CONFIG excludes --reference"},
    {{"config", "--reference", "--set", "run.seed=1"}, "config: --set excludes --reference"},
    {{"config", "bad.json"},
     "bad.json:1:1: not valid JSON: unexpected end of input; expected string literal"},
    {{"config", "tiny.json", "--set", "optimizer.lr"},
     "command line: --set \"optimizer.lr\" is not of the form section.key=value"},
    {{"config", "tiny.json", "--set", "optimizer.lr=fast"},
     "command line: optimizer.lr is \"fast\", allowed is a number of at least 0"},
    {{"config", "tiny.json", "--set", "optimizer.learning_rate=1"},
     "command line: optimizer.learning_rate is an unknown key (with value 1), allowed here are "
     "clip_grad, lr, beta1, beta2, weight_decay, type, eps, momentum and 1 more: strata config --reference"},
    {{"plan", "folder"}, "folder: is a folder, expected a file"},
    {{"plan", "tiny.json", "--json=3"}, "plan: json was given a disallowed flag override"},
};

TEST(Usage, WrongUsageIsToldInOneSentence) {
  const Workplace place;
  std::filesystem::copy_file(tiny_config(), place.path("tiny.json"));
  std::filesystem::create_directory(place.path("folder"));
  place.write("bad.json", "{");
  place.write("short.txt", "0123456789");
  place.write("text.txt", sample_text(100));
  for (const std::string name : {"short", "text"})
    ASSERT_EQ(place.strata({"prepare", name + ".txt", "--output", name}).status, 0);
  for (const WrongUsage& w : kWrong) {
    const Outcome outcome = place.strata(w.arguments);
    EXPECT_EQ(outcome.status, 2) << w.message;
    EXPECT_EQ(outcome.err, "strata: " + w.message + "\n");
    EXPECT_EQ(outcome.out, "") << w.message;
  }
  EXPECT_FALSE(std::filesystem::exists(place.path("runs"))) << "a refused run left a folder";
}

}  // namespace
}  // namespace strata::test
