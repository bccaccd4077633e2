// Every kind of wrong input through the binary: its exit status, the one sentence, and that nothing is left.
// A row prepares files in a fresh copy of a small finished run, then gives the command's words.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <map>
#include <sstream>

#include "checkpoint/safetensors.h"
#include "strata_binary.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using checkpoint::SafetensorsFile;
using checkpoint::SafetensorsWriter;
using Words = std::vector<std::string>;

// In `prepare` and `words` a tilde stands for a space inside a word, '' for an empty word; in `message` a
// star for anything.
struct Row {
  const char* name;
  const char* prepare;  // steps with their arguments, divided by "; ": the functions of Place
  const char* words;
  const char* message;
  int status = 2;
  const char* left = "";  // beginnings of paths that may be new or changed
  int log = 0;            // lines of the log before the sentence; -1: any number
};

Words split(std::string text) {
  Words words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    for (char& c : word) c = c == '~' ? ' ' : c;
    words.push_back(word == "''" ? "" : word);
  }
  return words;
}

bool matches(std::string_view text, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return text == pattern;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t at = star; at <= text.size(); ++at)
    if (matches(text.substr(at), rest)) return true;
  return false;
}

const char* const kConfig = R"({
  "run": {"name": "tiny"},
  "model": {
    "vocab_size": 264, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
    "intermediate_size": 32, "moe_intermediate_size": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "first_k_dense_replace": 1, "residual": {"type": "msar", "num_blocks": 2, "streams": 2}
  },
  "data": {"tokenizer": "byte", "train": [{"path": "text"}], "validation": {"other": {"path": "other"}}},
  "training": {"seq_length": 32, "micro_batch_size": 2, "global_batch_size": 4, "train_iters": 2},
  "optimizer": {"lr": 0.003}
})";

class Place : public Workplace {
 public:
  // The sample: c.json, token files text and other, a run of two steps with both checkpoints, its weights.
  void make_sample() {
    write("c.json", kConfig);
    write("text.txt", sample_text(300));
    write("other.txt", sample_text(60));
    for (const std::string name : {"text", "other"})
      EXPECT_EQ(strata({"prepare", name + ".txt", "--output", name}).status, 0);
    EXPECT_EQ(strata({"train", "c.json", "--set", "checkpoint.save_interval=1"}).status, 0);
    fs::copy_file(path("runs/tiny/checkpoints/step_00000002/model.safetensors"), path("w.safetensors"));
    batch("b.safetensors", "2,4", 1, "2");
  }
  ~Place() {
    if (held_ >= 0) close(held_);
  }

  void apply(const Words& w) {
    if (w.at(0) == "write")
      write(w.at(1), line_ends(w.at(2)));
    else if (w[0] == "swap")  // text for text
      swap(w.at(1), w.at(2), w.at(3));
    else if (w[0] == "cut")  // the first bytes are left
      fs::resize_file(path(w.at(1)), std::stoul(w.at(2)));
    else if (w[0] == "flip")  // a bit of a byte
      flip(w.at(1), std::stoul(w.at(2)));
    else if (w[0] == "remove")
      EXPECT_GT(fs::remove_all(path(w.at(1))), 0u) << w[1];
    else if (w[0] == "folder")
      fs::create_directories(path(w.at(1)));
    else if (w[0] == "copy")
      fs::copy(path(w.at(1)), path(w.at(2)));
    else if (w[0] == "fixture")
      fs::copy_file(STRATA_TEST_FIXTURES "/formats/" + w.at(1), path(w.at(2)));
    else if (w[0] == "ids")  // 16-bit ids without header
      ids(w);
    else if (w[0] == "batch")  // shape, the last id, the last label or what labels are instead
      batch(w.at(1), w.at(2), std::stol(w.at(3)), w.at(4));
    else if (w[0] == "weights")  // w.safetensors with one tensor "dropped", "reshaped", "integer" or "added"
      weights(w.at(1), w.at(2));
    else if (w[0] == "forbid")
      fs::permissions(path(w.at(1)), fs::is_directory(path(w[1])) ? fs::perms(0500) : fs::perms::none);
    else if (w[0] == "hold")
      EXPECT_EQ(flock(held_ = open(path(w.at(1)).c_str(), O_RDWR), LOCK_EX | LOCK_NB), 0);
    else
      ADD_FAILURE() << "no such step: " << w[0];
  }

  // Everything that lies here but the process's own output.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(path(""))) {
      const std::string name = fs::relative(entry.path(), path(""));
      if (name == ".out" || name == ".err") continue;
      all[name] = entry.is_regular_file() && access(entry.path().c_str(), R_OK) == 0 ? read(name) : "no file";
    }
    return all;
  }

 private:
  static std::string line_ends(std::string text) {
    for (std::size_t at; (at = text.find("\\n")) != std::string::npos;) text.replace(at, 2, "\n");
    return text;
  }
  void swap(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = read(file);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write(file, text.replace(at, from.size(), to));
  }
  void flip(const std::string& file, std::size_t at) {
    std::string bytes = read(file);
    bytes.at(at) ^= 1;
    write(file, bytes);
  }
  void ids(const Words& w) {
    std::string bytes;
    for (std::size_t i = 2; i < w.size(); ++i)
      for (const int shift : {0, 8}) bytes += char(std::stoi(w[i]) >> shift & 255);
    write(w.at(1), bytes);
  }
  void batch(const std::string& file, const std::string& shape, std::int64_t id, const std::string& label) {
    std::vector<std::int64_t> dims;
    std::int64_t n = 1;
    std::istringstream stream(shape);
    for (std::string d; std::getline(stream, d, ',');) dims.push_back(std::stol(d)), n *= dims.back();
    std::vector<std::int64_t> ids(std::size_t(n), 1), labels(std::size_t(n), 2);
    if (n > 0) ids.back() = id;
    SafetensorsWriter writer;
    writer.add_integers("input_ids", dims, ids);
    if (label == "float") {
      writer.add("labels", "F32", dims, std::vector<double>(labels.begin(), labels.end()));
    } else if (label == "short") {
      writer.add_integers("labels", {1, 1}, {2});
    } else if (label != "none") {
      if (n > 0) labels.back() = std::stol(label);
      writer.add_integers("labels", dims, labels);
    }
    writer.write(path(file));
  }
  void weights(const std::string& change, const std::string& which) {
    const SafetensorsFile file(path("w.safetensors"));
    SafetensorsWriter writer;
    for (const auto& [name, t] : file.tensors()) {
      auto shape = t.shape;
      if (name == which && change == "dropped") continue;
      if (name == which && change == "reshaped") shape.insert(shape.begin(), 1);
      if (name == which && change == "integer")
        writer.add_integers(name, shape, std::vector<std::int64_t>(std::size_t(t.numel()), 1));
      else
        writer.add(name, "F32", shape, file.floats(name));
    }
    if (change == "added") writer.add(which, "F32", {1}, {0});
    writer.write(path("w.safetensors"));
  }

  int held_ = -1;
};

class WrongInput : public ::testing::Test {
 protected:
  WrongInput() { sample_.make_sample(); }

  void check(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      SCOPED_TRACE(row.name);
      check(row);
    }
  }

 private:
  void check(const Row& row) {
    Place place;
    fs::copy(sample_.path(""), place.path(""), fs::copy_options::recursive);
    std::string steps = row.prepare;
    for (std::size_t end; !steps.empty(); steps = end == std::string::npos ? "" : steps.substr(end + 2))
      place.apply(split(steps.substr(0, end = steps.find("; "))));
    const auto before = place.files();
    const Outcome o = place.strata(split(row.words));
    EXPECT_EQ(o.status, row.status);
    EXPECT_EQ(o.out, "");
    EXPECT_TRUE(o.err.ends_with("\n")) << o.err;
    const std::string lines = "\n" + o.err;
    const std::size_t last = lines.rfind('\n', lines.size() - 2) + 1;
    const std::string sentence = lines.substr(last, lines.size() - 1 - last);
    EXPECT_TRUE(matches(sentence, std::string("strata: ") + row.message)) << sentence;
    const auto log = std::count(o.err.begin(), o.err.end(), '\n') - 1;
    EXPECT_TRUE(row.log < 0 || row.log == log) << o.err;
    expect_only(before, place.files(), split(row.left));
  }
  // Nothing is new, changed or gone but what may.
  void expect_only(std::map<std::string, std::string> before, std::map<std::string, std::string> after,
                   const Words& may) {
    for (auto* side : {&before, &after})
      std::erase_if(*side, [&](const auto& file) {
        return std::any_of(may.begin(), may.end(), [&](const auto& m) { return file.first.starts_with(m); });
      });
    for (const auto& [name, bytes] : after)
      EXPECT_TRUE(before.count(name) && before[name] == bytes) << name << " is left or changed";
    for (const auto& [name, bytes] : before) EXPECT_TRUE(after.count(name)) << name << " is gone";
  }

  Place sample_;
};

TEST_F(WrongInput, Configurations) {
  check({
      {"unknown section", "swap c.json \"optimizer\" \"optimiser\"", "train c.json",
       "c.json: optimiser is an unknown key (with value {\"lr\": 0.003}), nearest is optimizer, allowed here "
       "are *"},
      {"unknown key", "swap c.json \"lr\" \"learning_rate\"", "train c.json",
       "c.json: optimizer.learning_rate is an unknown key (with value 0.003), allowed here are clip_grad, "
       "lr, beta1, beta2, weight_decay, type, eps, momentum and 1 more: strata config --reference"},
      {"key with a space", "swap c.json \"lr\" \"lr~\"", "train c.json",
       "c.json: optimizer.\"lr \" is an unknown key (with value 0.003), nearest is optimizer.lr, allowed "
       "here are lr, eps, type, beta1, beta2, clip_grad, momentum, weight_decay and 1 more: "
       "strata config --reference"},
      {"key twice", "swap c.json \"lr\": \"lr\":~0.1,~\"lr\":", "train c.json",
       "c.json: optimizer.lr is given twice"},
      {"misspelt key", "swap c.json hidden_size hiden_size", "train c.json",
       "c.json: model.hiden_size is an unknown key (with value 16), nearest is model.hidden_size, allowed "
       "here are hidden_size, * more: strata config --reference"},
      {"key of another section", "swap c.json \"name\" \"seq_length\"", "plan c.json",
       "c.json: run.seq_length is an unknown key (with value \"tiny\"), nearest is training.seq_length, "
       "allowed here are name, output_dir, seed"},
      {"text for a number", "swap c.json :~16, :~\"16\",", "plan c.json",
       "c.json: model.hidden_size is \"16\", allowed is an integer from 1 to 16777216"},
      {"number for a text", "swap c.json \"tiny\" 3", "config c.json",
       "c.json: run.name is 3, allowed is a string that is not empty"},
      {"null", "swap c.json 264 null", "train c.json",
       "c.json: model.vocab_size is null, allowed is an integer from 1 to 16777216"},
      {"object for a list", "swap c.json [{\"path\":~\"text\"}] {\"path\":~\"text\"}", "train c.json",
       "c.json: data.train is {\"path\": \"text\"}, allowed is a list of objects"},
      {"out of range", "swap c.json 0.003 -1", "train c.json",
       "c.json: optimizer.lr is -1, allowed is a number of at least 0"},
      {"fraction", "swap c.json :~16, :~16.5,", "train c.json",
       "c.json: model.hidden_size is 16.5, allowed is an integer from 1 to 16777216, written without "
       "fraction or exponent"},
      {"unknown word", "swap c.json msar masr", "train c.json",
       "c.json: model.residual.type is \"masr\", allowed is \"vanilla\", \"attnres\", \"msar\", \"mhc\" or "
       "\"attnres_mhc\""},
      {"key of another type", "swap c.json msar vanilla", "train c.json",
       "c.json: model.residual.num_blocks is 2, but the key is allowed only when type is attnres, msar or "
       "attnres_mhc"},
      {"contradiction", "swap c.json \"global_batch_size\":~4 \"global_batch_size\":~5", "train c.json",
       "c.json: training.global_batch_size 5 is not a multiple of micro_batch_size 2"},
      {"too many experts a token", "swap c.json \"num_experts_per_tok\":~2 \"num_experts_per_tok\":~5",
       "train c.json", "c.json: model.num_experts_per_tok 5 is above n_routed_experts 4"},
      {"missing key", "swap c.json \"hidden_size\":~16, ''", "train c.json",
       "c.json: model.hidden_size is required: an integer from 1 to 16777216"},
      {"cut short", "cut c.json 100", "train c.json",
       "c.json:4:58: not valid JSON: invalid string: missing closing quote; expected string literal"},
      {"comma too many", "swap c.json 0.003} 0.003,}", "train c.json",
       "c.json:11:29: not valid JSON: unexpected '}'; expected string literal"},
      {"empty", "cut c.json 0", "train c.json", "c.json: is empty, expected a JSON object"},
      {"a list", "write c.json []", "train c.json", "c.json: is [], allowed is an object of sections"},
      {"not there", "", "train d.json", "d.json: no such file"},
      {"a folder", "folder d.json", "train d.json", "d.json: is a folder, expected a file"},
      {"not text", "", "train text.bin", "text.bin:1:1: not valid JSON: invalid literal"},
      {"path below a file", "", "config c.json/d.json", "c.json/d.json: no such file"},
  });
}

TEST_F(WrongInput, CommandLines) {
  check({
      {"no command", "", "", "A subcommand is required, see strata --help"},
      {"misspelt command", "", "evla c.json",
       "\"evla\" is not a command, nearest is eval, there are train, *"},
      {"unknown option before a command", "", "--versio",
       "--versio is not an option, nearest is --version, there are --help, --version"},
      {"misspelt option", "", "train c.json --overide",
       "train: --overide is not an option, nearest is --override, there are *"},
      {"option without a value", "", "eval --checkpoint", "eval: --checkpoint: 1 required FOLDER missing"},
      {"option twice", "", "trace --config c.json --config c.json",
       "trace: --config: At Most 1 required but received 2"},
      {"number that is none", "", "eval --checkpoint runs/tiny --iters many",
       "eval: --iters: Value many not in range 1 to 1099511627776"},
      {"number out of range", "", "prepare text.txt --output out --workers 5000",
       "prepare: --workers: Value 5000 not in range 0 to 1024"},
      {"missing argument", "", "plan", "plan: CONFIG is required"},
      {"argument too many", "", "plan c.json c.json", "plan: nothing is expected where \"c.json\" stands"},
      {"excluded", "", "generate --config c.json --weights w.safetensors --checkpoint runs/tiny --prompt a",
       "generate: --config excludes --checkpoint"},
      {"unknown fault", "", "train c.json --inject nan@stp=3",
       "--inject: \"nan@stp\" is not a fault, nearest is nan@step, there are nan@step, spike@step, "
       "term@step, kill@step, throw@step, sleep@step, bitflip@checkpoint, term@save, kill@save, full@save"},
      {"fault without a number", "", "train c.json --inject nan@step",
       "--inject: \"nan@step\" needs a number from 1, as in nan@step=5"},
      {"set without a value", "", "train c.json --set optimizer.lr",
       "command line: --set \"optimizer.lr\" is not of the form section.key=value"},
      {"set without a key", "", "train c.json --set =3",
       "command line: --set \"=3\" is not of the form section.key=value"},
      {"set with an empty part", "", "train c.json --set optimizer..lr=3",
       "command line: --set \"optimizer..lr=3\" is not of the form section.key=value"},
      {"set of an unknown key", "", "train c.json --set optimizer.lrr=3",
       "command line: optimizer.lrr is an unknown key (with value 3), nearest is optimizer.lr, allowed here "
       "are lr, eps, type, beta1, beta2, clip_grad, momentum, weight_decay and 1 more: strata config "
       "--reference"},
      {"set of an unknown section", "", "train c.json --set optimise.lr=3",
       "command line: optimise is an unknown key (with value {\"lr\": 3}), nearest is optimizer, allowed "
       "here are *"},
      {"set of a wrong type", "", "train c.json --set training.train_iters=ten",
       "command line: training.train_iters is \"ten\", allowed is an integer from 1 to 1000000000000000"},
      {"set below a number", "", "train c.json --set optimizer.lr.max=3",
       "command line: optimizer.lr.max cannot be set, because optimizer.lr is 0.003 and not an object"},
      {"set beyond a list", "", "train c.json --set data.train[3].path=x",
       "command line: data.train[3] is not there: the list has 1 elements, counted from 0"},
      {"set of broken JSON", "", "train c.json --set data.train=[{",
       "command line: value of data.train:1:2: not valid JSON: unexpected end of input; expected string "
       "literal"},
      {"set of an unknown word", "", "train c.json --set precision.compute=float16",
       "command line: precision.compute is \"float16\", allowed is \"float32\", \"float64\" or \"bfloat16\""},
  });
}

TEST_F(WrongInput, TokenFiles) {
  check({
      {"neither file", "", "train c.json --overwrite --set data.train[0].path=txet",
       "data.train[0].path: cannot read txet: No such file or directory"},
      {"no index", "remove text.idx", "train c.json --overwrite",
       "data.train[0].path: text.bin has no text.idx beside it; ids without index are named text.bin"},
      {"no tokens", "remove text.bin", "train c.json --overwrite",
       "data.train[0].path: text.idx has no text.bin beside it"},
      {"tokens cut", "cut text.bin 1000", "train c.json --overwrite",
       "data.train[0].path: text.idx is not a sound Megatron index: sequence 0 ends at byte 2550 of "
       "text.bin, which has only 1000"},
      {"index cut", "cut text.idx 40", "train c.json --overwrite",
       "data.train[0].path: text.idx is not a sound Megatron index: it says 1 sequences, but has only 40 "
       "bytes"},
      {"index empty", "cut text.idx 0", "train c.json --overwrite",
       "data.train[0].path: text.idx is not a sound Megatron index: it is empty"},
      {"index of another type", "flip text.idx 17", "train c.json --overwrite",
       "data.train[0].path: text.idx is not a sound Megatron index: its type code is 9, allowed are 1 (u8), "
       "2 (i8), 3 (i16), 4 (i32), 5 (i64), 8 (u16)"},
      {"index with another magic", "flip text.idx 0", "train c.json --overwrite",
       "data.train[0].path: text.idx is not a sound Megatron index: it does not begin with MMIDIDX"},
      {"index version", "flip text.idx 9", "train c.json --overwrite",
       "data.train[0].path: text.idx is not a sound Megatron index: its version is 0, known is 1"},
      {"index of other tokens", "remove text.idx; copy other.idx text.idx", "train c.json --overwrite",
       "data.train[0].path: text.idx is not a sound Megatron index: text.bin has 2550 bytes, but the "
       "sequences end at byte 506"},
      {"validation cut", "cut other.bin 100", "train c.json --overwrite",
       "data.validation.other.path: other.idx is not a sound Megatron index: sequence 0 ends at byte 506 of "
       "other.bin, which has only 100"},
      {"text", "", "train c.json --overwrite --set data.train[0].path=text.txt",
       "data.train[0].path: text.txt is not a token file: it is text; strata prepare makes token files of "
       "text and JSONL"},
      {"a folder", "folder data", "train c.json --overwrite --set data.train[0].path=data",
       "data.train[0].path: cannot read data: it is a directory"},
      {"a safetensors file", "", "train c.json --overwrite --set data.train[0].path=w.safetensors",
       "data.train[0].path: w.safetensors is not a token file: it is a safetensors file"},
      {"id beyond the vocabulary", "swap c.json 264 258; ids n.bin 300 1 2 3 4 5",
       "train c.json --overwrite --set data.train[0].path=n.bin --set training.seq_length=4",
       "n.bin: token 0 is 300; ids are 0 to 257 (model.vocab_size)"},
      {"llm.c version", "fixture llmc/bad_version.bin n.bin",
       "train c.json --overwrite --set data.train[0].path=n.bin",
       "data.train[0].path: n.bin is not a sound llm.c token file: its version is 2, known with this magic "
       "is 1"},
      {"llm.c cut", "fixture llmc/bad_truncated.bin n.bin",
       "train c.json --overwrite --set data.train[0].path=n.bin",
       "data.train[0].path: n.bin is not a sound llm.c token file: its header says 310 tokens, that is 1644 "
       "bytes, but it has 1643"},
      {"llm.c ids beyond the vocabulary", "fixture llmc/gpt2_val.bin n.bin",
       "train c.json --overwrite --set data.train[0].path=n.bin --set data.tokenizer=null",
       "n.bin: token 0 is 5962; ids are 0 to 263 (model.vocab_size)"},
      {"nanoGPT of odd size", "fixture nanogpt/bad_odd_size.bin n.bin",
       "train c.json --overwrite --set data.train[0].path=n.bin",
       "data.train[0].path: n.bin is not a token file: it has no known header, and 619 bytes are not a whole "
       "number of u16 tokens"},
      {"nanoGPT empty", "write n.bin ''", "train c.json --overwrite --set data.train[0].path=n.bin",
       "data.train[0].path: n.bin is not a token file: it is empty"},
      {"too short for a window", "ids n.bin 1 2 3", "train c.json --overwrite --set data.train[0].path=n.bin",
       "n.bin has 3 tokens; one window of training.seq_length 32 needs 33"},
      {"too many epochs", "",
       "train c.json --overwrite --set data.train[0].max_epochs=1 --set training.train_iters=100",
       "data.train[0].max_epochs is 1, but text.bin has 39 samples of 32 tokens, and the run plans 400 of "
       "them, 10.26 epochs: shorten the run, lower its weight, or raise max_epochs"},
      {"vocabulary below the tokenizer's", "swap c.json 264 200", "train c.json --overwrite",
       "c.json: model.vocab_size 200 is below the 257 ids of data.tokenizer byte"},
      {"validation without labels", "ids n.bin 1",
       "train c.json --overwrite --set data.validation.other.path=n.bin",
       "n.bin has 1 tokens; a validation set needs at least 2"},
      {"evaluated id beyond the vocabulary", "ids n.bin 1 2 300",
       "eval --checkpoint runs/tiny --data n=n.bin",
       "n.bin: token 2 is 300; ids are 0 to 263 (model.vocab_size)"},
  });
}

TEST_F(WrongInput, Weights) {
  const std::string words = "trace --config c.json --batch b.safetensors --out o --weights ";
  const std::string w = words + "w.safetensors";
  check({
      {"tensor missing", "weights dropped model.norm.weight", w.c_str(),
       "w.safetensors lacks weights of this model: model.norm.weight"},
      {"tensor unknown", "weights added model.nrom.weight", w.c_str(),
       "w.safetensors has weights this model does not have: model.nrom.weight"},
      {"other shape", "weights reshaped model.norm.weight", w.c_str(),
       "w.safetensors has weights of other shapes: model.norm.weight is [1, 16], the model has [16]"},
      {"integers", "weights integer model.norm.weight", w.c_str(),
       "w.safetensors: tensor \"model.norm.weight\" is I64; F64, F32, BF16 or F16 is needed"},
      {"cut in the data", "cut w.safetensors 20000", w.c_str(),
       "w.safetensors is not a sound safetensors file: its header describes 58048 bytes of data, the file "
       "holds 14312"},
      {"cut in the header", "cut w.safetensors 100", w.c_str(),
       "w.safetensors is not a sound safetensors file: its header claims 5680 bytes, the file has 92"},
      {"empty", "cut w.safetensors 0", w.c_str(),
       "w.safetensors is not a sound safetensors file: it is shorter than its 8-byte length"},
      {"header with another length", "flip w.safetensors 0", w.c_str(),
       "w.safetensors is not a sound safetensors file: its header is not JSON (parse error at line 1, column "
       "5681: syntax error while parsing value - invalid literal)"},
      {"text", "", (words + "c.json").c_str(),
       "c.json is not a sound safetensors file: it begins with text, not with the length of a header"},
      {"not there", "", (words + "v.safetensors").c_str(), "cannot read v.safetensors: no such file"},
      {"a folder without weights", "folder f", (words + "f").c_str(),
       "f has neither model.safetensors nor model.safetensors.index.json"},
      {"checkpoint.load of another model", "",
       "train c.json --overwrite --set model.hidden_size=32 --set checkpoint.load=runs/tiny --set "
       "run.output_dir=new",
       "runs/tiny/checkpoints/step_00000002/model.safetensors has weights of other shapes: lm_head.weight is "
       "[264, 16], the model has [264, 32], model.embed_tokens.weight is [264, 16], the model has [264, 32], "
       "model.layers.0.input_layernorm.weight is [16], the model has [32] and 41 more"},
      {"checkpoint.load of another residual connection", "",
       "train c.json --set model.residual={\"type\":\"mhc\"} --set checkpoint.load=runs/tiny --set "
       "run.output_dir=new",
       "checkpoint.load: runs/tiny/checkpoints/step_00000002/model.safetensors: these weights are of a model "
       "with residual connection msar (config.json beside them), this one has mhc; only those of a vanilla "
       "model can be converted"},
      {"checkpoint.load of nothing", "",
       "train c.json --set checkpoint.load=none --set run.output_dir=new/run --set logging.jsonl=log/m.jsonl",
       "checkpoint.load: none: no such folder"},
      {"checkpoint.load of nothing in an empty folder", "folder new",
       "train c.json --set checkpoint.load=none --set run.output_dir=new",
       "checkpoint.load: none: no such folder"},
      {"checkpoint.load of what is overwritten", "",
       "train c.json --overwrite --set checkpoint.load=runs/tiny",
       "checkpoint.load: runs/tiny/checkpoints/step_00000002 is of the run that --overwrite removes; choose "
       "another run.name or run.output_dir, or copy it elsewhere"},
      {"inspected", "cut w.safetensors 20000", "checkpoint inspect w.safetensors",
       "w.safetensors is not a sound safetensors file: its header describes 58048 bytes of data, the file "
       "holds 14312"},
  });
}

TEST_F(WrongInput, Batches) {
  const char* words = "trace --config c.json --weights w.safetensors --batch b.safetensors --out o";
  check({
      {"one dimension", "batch b.safetensors 4 1 2", words,
       "b.safetensors: input_ids is [4]; [sequences, tokens] is needed"},
      {"three dimensions", "batch b.safetensors 1,2,2 1 2", words,
       "b.safetensors: input_ids is [1, 2, 2]; [sequences, tokens] is needed"},
      {"no tokens", "batch b.safetensors 1,0 1 2", words,
       "b.safetensors: input_ids is [1, 0]; [sequences, tokens] is needed"},
      {"no labels", "batch b.safetensors 1,4 1 none", words, "b.safetensors has no tensor \"labels\""},
      {"labels of another shape", "batch b.safetensors 1,4 1 short", words,
       "b.safetensors: labels is [1, 1], input_ids is [1, 4]"},
      {"labels that are no integers", "batch b.safetensors 1,4 1 float", words,
       "b.safetensors: tensor \"labels\" is F32; I64 or I32 is needed"},
      {"id below", "batch b.safetensors 2,4 -1 2", words,
       "b.safetensors: input_ids[1][3] is -1; token ids are 0 to 263 (model.vocab_size)"},
      {"id beyond", "batch b.safetensors 2,4 264 2", words,
       "b.safetensors: input_ids[1][3] is 264; token ids are 0 to 263 (model.vocab_size)"},
      {"label below", "batch b.safetensors 2,4 1 -99", words,
       "b.safetensors: labels[1][3] is -99; labels are 0 to 263 (model.vocab_size), or -100 for a token that "
       "is not counted"},
      {"label beyond", "batch b.safetensors 2,4 1 264", words,
       "b.safetensors: labels[1][3] is 264; labels are 0 to 263 (model.vocab_size), or -100 for a token that "
       "is not counted"},
      {"weights for a batch", "remove b.safetensors; copy w.safetensors b.safetensors", words,
       "b.safetensors has no tensor \"input_ids\""},
      {"cut", "cut b.safetensors 200", words,
       "b.safetensors is not a sound safetensors file: its header describes 128 bytes of data, the file "
       "holds 64"},
      {"not there", "remove b.safetensors", words, "cannot read b.safetensors: no such file"},
      {"no output folder", "",
       "trace --config c.json --weights w.safetensors --batch b.safetensors --out no/o",
       "--out: no folder */no"},
      {"reference cut", "copy w.safetensors e; cut e 500",
       "trace --config c.json --weights w.safetensors --batch b.safetensors --compare e",
       "e is not a sound safetensors file: its header claims 5680 bytes, the file has 492"},
  });
}

TEST_F(WrongInput, Prepare) {
  check({
      {"input not there", "", "prepare none.txt --output out",
       "cannot read none.txt: No such file or directory"},
      {"one of two not there", "", "prepare text.txt none.jsonl --output out",
       "cannot read none.jsonl: No such file or directory"},
      {"input is a folder", "folder d.txt", "prepare d.txt --output out",
       "cannot read d.txt: it is a folder; name its .txt and .jsonl files"},
      {"input is a folder of any name", "folder d", "prepare d --output out",
       "cannot read d: it is a folder; name its .txt and .jsonl files"},
      {"input of another kind", "", "prepare c.json --output out",
       "cannot tell what c.json is: a name ends in .txt (one document) or .jsonl (one a line)"},
      {"bad line", "write d.jsonl {\"text\":~\"a\"}\\n{\"text\":\\n", "prepare d.jsonl --output out",
       "d.jsonl:2:9: not valid JSON: unexpected end of input; expected '[', '{', or a literal"},
      {"line that is no object", "write d.jsonl [1]\\n", "prepare d.jsonl --output out",
       "d.jsonl:1: the line is not a JSON object"},
      {"no text key", "write d.jsonl {\"text\":~\"a\"}\\n{\"txt\":~\"b\"}\\n", "prepare d.jsonl --output out",
       "d.jsonl:2: no key \"text\""},
      {"key that is no string", "write d.jsonl {\"text\":~3}\\n", "prepare d.jsonl --output out",
       "d.jsonl:1: \"text\" is not a string"},
      {"other key", "write d.jsonl {\"text\":~\"a\"}\\n", "prepare d.jsonl --output out --jsonl-key body",
       "d.jsonl:1: no key \"body\""},
      {"output folder not there", "", "prepare text.txt --output no/out",
       "cannot write no/out.bin.part: No such file or directory"},
      {"output folder is a file", "", "prepare text.txt --output c.json/out",
       "cannot write c.json/out.bin.part: Not a directory"},
      {"output exists", "", "prepare other.txt --output text",
       "text.bin exists already; choose another output, or replace it with --overwrite"},
      {"nothing but empty documents", "write d.jsonl {\"text\":~\"\"}\\n; write e.txt ''",
       "prepare d.jsonl e.txt --output out",
       "d.jsonl and the others hold no text, so there are no tokens to write to out.bin"},
      {"unknown tokenizer", "", "prepare text.txt --output out --tokenizer byt",
       "prepare: --tokenizer is \"byt\", allowed is \"byte\""},
  });
}

TEST_F(WrongInput, Checkpoints) {
  const char* only = "remove runs/tiny/checkpoints/step_00000001; ";
  const std::string newest = "runs/tiny/checkpoints/step_00000002/";
  const auto damaged = [&](const std::string& how) { return only + how; };
  const std::string flip = damaged("flip " + newest + "model.safetensors 9000"),
                    cut = damaged("cut " + newest + "optimizer.safetensors 9000"),
                    gone = damaged("remove " + newest + "manifest.json"),
                    bit = "flip " + newest + "model.safetensors 9000",
                    less = "remove " + newest + "state.json", torn = "cut " + newest + "manifest.json 100";
  check({
      {"changed key", "", "train c.json --set optimizer.lr=0.1",
       "runs/tiny/checkpoints/step_00000002/config.json differs from this configuration: optimizer.lr 0.003 "
       "-> 0.1; change it back, go on with the new values by --override, or start anew by --overwrite"},
      {"changed model", "", "train c.json --set model.hidden_size=32",
       "runs/tiny/checkpoints/step_00000002/config.json differs from this configuration: model.hidden_size "
       "16 -> 32; change it back, go on with the new values by --override, or start anew by --overwrite"},
      {"changed data", "flip text.bin 100", "train c.json",
       "runs/tiny/checkpoints/step_00000002/config.json differs from this configuration: fingerprint of the "
       "training data * -> *; change it back, go on with the new values by --override, or start anew by "
       "--overwrite"},
      {"changed model with --override", "", "train c.json --set model.hidden_size=32 --override",
       "runs/tiny/checkpoints/step_00000002/model.safetensors has weights of other shapes: lm_head.weight is "
       "[264, 16], the model has [264, 32], model.embed_tokens.weight is [264, 16], the model has [264, 32], "
       "model.layers.0.input_layernorm.weight is [16], the model has [32] and 41 more",
       2, "", 1},
      {"longer without --override", "", "train c.json --set training.train_iters=4",
       "runs/tiny/checkpoints/step_00000002/config.json differs from this configuration: "
       "training.train_iters 2 -> 4; change it back, go on with the new values by --override, or start anew "
       "by --overwrite"},
      {"folder in use", "hold runs/tiny/lock", "train c.json",
       "runs/tiny is in use by another run that has not ended; choose another run.name or run.output_dir, or "
       "stop that run"},
      {"only one, a bit of it other", flip.c_str(), "train c.json",
       "runs/tiny/checkpoints has no sound checkpoint left; put one back, or start anew by --overwrite", 2,
       "runs/tiny/checkpoints/", -1},
      {"only one, cut", cut.c_str(), "train c.json",
       "runs/tiny/checkpoints has no sound checkpoint left; put one back, or start anew by --overwrite", 2,
       "runs/tiny/checkpoints/", -1},
      {"only one, without manifest", gone.c_str(), "train c.json",
       "runs/tiny/checkpoints has no sound checkpoint left; put one back, or start anew by --overwrite", 2,
       "runs/tiny/checkpoints/", -1},
      {"generate from a damaged one", torn.c_str(), "generate --checkpoint runs/tiny --prompt a",
       "runs/tiny/checkpoints/step_00000002 is damaged: manifest.json:6:22: not valid JSON: invalid string: "
       "missing closing quote; expected string literal"},
      {"generate from one without a file", less.c_str(), "generate --checkpoint runs/tiny --prompt a",
       "runs/tiny/checkpoints/step_00000002 is damaged: state.json is missing"},
      {"generate from one with another bit", bit.c_str(), "generate --checkpoint runs/tiny --prompt a",
       "runs/tiny/checkpoints/step_00000002 is damaged: model.safetensors has checksum *, * was saved"},
      {"inspect nothing", "", "checkpoint inspect none", "none: no such file or folder"},
      {"verify a file", "", "checkpoint verify c.json",
       "c.json is not a sound safetensors file: it begins with text, not with the length of a header"},
      {"convert from nothing", "", "checkpoint convert none --to m", "none: no such folder"},
      {"convert to what is there", "", "checkpoint convert runs/tiny --to runs",
       "--to: runs is there already; --overwrite replaces it"},
      {"convert into the checkpoints", "",
       "checkpoint convert runs/tiny --to runs/tiny/checkpoints/step_00000009",
       "--to: runs/tiny/checkpoints/step_00000009 lies among the checkpoints of *"},
      {"convert over a folder that has more", "folder m; write m/config.json {}; write m/main.py pass",
       "checkpoint convert runs/tiny --to m --overwrite",
       "--to: m is not overwritten: main.py in it is not of a converted model"},
      {"convert what is no vanilla model", "", "checkpoint convert runs/tiny --to m --residual mhc",
       "command line: model.residual.type \"msar\" -> \"mhc\": runs/tiny/checkpoints/step_00000002 is a msar "
       "model, and only a vanilla one can be given other residual connections"},
      {"convert to a format without the model", "",
       "checkpoint convert runs/tiny --to m --format huggingface",
       "model.residual.type msar has no form in Hugging Face's deepseek_v3 or deepseek_v2: only vanilla has; "
       "--format strata writes all"},
      {"convert to an unknown format", "", "checkpoint convert runs/tiny --to m --format hugingface",
       "checkpoint convert: --format: hugingface not in {strata,huggingface}"},
  });
}

TEST_F(WrongInput, GenerateEvalAndPlot) {
  check({
      {"no model", "", "generate --prompt a",
       "generate: --checkpoint, or --config and --weights, is required"},
      {"no prompt", "", "generate --checkpoint runs/tiny", "generate: --prompt or --prompt-file is required"},
      {"empty prompt", "", "generate --checkpoint runs/tiny --prompt ''",
       "the prompt is empty; at least one token is needed"},
      {"prompt file not there", "", "generate --checkpoint runs/tiny --prompt-file none",
       "cannot read none: No such file or directory"},
      {"temperature", "", "generate --checkpoint runs/tiny --prompt a --temperature -1",
       "temperature is -1; a number from 0 is allowed"},
      {"top-p", "", "generate --checkpoint runs/tiny --prompt a --top-p 2",
       "top-p is 2; a number above 0 and up to 1 is allowed"},
      {"top-k", "", "generate --checkpoint runs/tiny --prompt a --top-k 1.5",
       "generate: --top-k: 1.5 is not a whole number from 0"},
      {"seed", "", "generate --checkpoint runs/tiny --prompt a --seed -1",
       "generate: --seed: -1 is not a whole number from 0"},
      {"checkpoint not there", "", "generate --checkpoint runs/tny --prompt a", "runs/tny: no such folder"},
      {"prompt beyond the vocabulary", "",
       "generate --config c.json --weights w.safetensors --set model.vocab_size=100 --prompt hz",
       "token 0 of the prompt is 104; token ids are 0 to 99 (model.vocab_size)"},
      {"unknown set", "", "eval --checkpoint runs/tiny --data ohter",
       "--data: \"ohter\" is no set of data.validation, which has other; NAME=PREFIX gives another one"},
      {"set without files", "", "eval --checkpoint runs/tiny --data x=none",
       "data.validation.x.path: cannot read none: No such file or directory"},
      {"no set", "", "eval --checkpoint runs/tiny --set data.validation={}",
       "nothing to evaluate on: --data NAME=PREFIX, or data.validation, names token files"},
      {"run not there", "", "plot runs/none --out page.html",
       "runs/none: there is no such run or file of metrics"},
      {"page over the metrics", "", "plot runs/tiny --out runs/tiny/metrics.jsonl",
       "--out: runs/tiny/metrics.jsonl is there already and no page that this command drew"},
      {"page in no folder", "", "plot runs/tiny --out no/a.html", "--out: no folder no"},
      {"page without a name", "", "plot runs/tiny --out ''", "--out: \"\" is no file's name"},
      {"no line of metrics", "write m.jsonl {}", "plot m.jsonl --out page.html", "m.jsonl: holds no metrics"},
  });
}

// Paths that nobody can write to, root neither.
TEST_F(WrongInput, PlacesThatCannotBeWritten) {
  check({
      {"run below a file", "", "train c.json --set run.output_dir=text.txt/run",
       "run.output_dir: cannot make the folder text.txt/run: Not a directory"},
      {"run in a file", "", "train c.json --set run.output_dir=text.txt",
       "run.output_dir: cannot make the folder text.txt: Not a directory"},
      {"run below /proc", "", "train c.json --set run.output_dir=/proc/strata_test/run",
       "run.output_dir: cannot make the folder /proc/strata_test/run: No such file or directory"},
      {"checkpoints below a file", "",
       "train c.json --set run.output_dir=new --set checkpoint.save=text.txt/ck",
       "cannot make the folder of checkpoints text.txt/ck: Not a directory", 2, "new", -1},
      {"checkpoints below /proc", "",
       "train c.json --set run.output_dir=new --set checkpoint.save=/proc/strata_test/ck",
       "cannot make the folder of checkpoints /proc/strata_test/ck: No such file or directory", 2, "new", -1},
      {"metrics outside the folder", "",
       "train c.json --set run.output_dir=new --set logging.jsonl=../m.jsonl",
       "command line: logging.jsonl \"../m.jsonl\" is no file inside the run's folder, such as "
       "metrics.jsonl"},
      {"metrics are a folder", "folder new/metrics.jsonl", "train c.json --set run.output_dir=new",
       "cannot write new/metrics.jsonl: Is a directory", 2, "new/"},
      {"token file below /proc", "", "prepare text.txt --output /proc/strata_test/out",
       "cannot write /proc/strata_test/out.bin.part: No such file or directory"},
      {"trace below /proc", "",
       "trace --config c.json --weights w.safetensors --batch b.safetensors --out /proc/strata_test/o",
       "--out: no folder /proc/strata_test"},
      {"page below a file", "", "plot runs/tiny --out text.txt/page.html", "--out: no folder text.txt"},
      {"model below a file", "", "checkpoint convert runs/tiny --to text.txt/m",
       "--to: no folder */text.txt"},
  });
}

TEST_F(WrongInput, FilesThatMayNotBeRead) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read and write everything";
  const char* trace = "trace --config c.json --weights w.safetensors --batch b.safetensors --out o";
  check({
      {"configuration", "forbid c.json", "train c.json", "*c.json*Permission denied*"},
      {"tokens", "forbid text.bin", "train c.json --overwrite", "*text.bin*Permission denied*"},
      {"text", "forbid text.txt", "prepare text.txt --output out", "*text.txt*Permission denied*"},
      {"weights", "forbid w.safetensors", trace, "*w.safetensors*Permission denied*"},
      {"output folder", "folder no; forbid no", "prepare text.txt --output no/out",
       "*no/out*Permission denied*"},
  });
}

TEST_F(WrongInput, FullDisk) {
  check({
      {"first save of a run", "", "train c.json --set run.output_dir=new --inject full@save=1",
       "step 2 is not saved: cannot write new/checkpoints/.step_00000002.tmp-*/model.safetensors: No space "
       "left on device",
       1, "new", -1},
      {"in the middle of a file", "", "train c.json --set run.output_dir=new --inject full@save=70000",
       "step 2 is not saved: cannot write new/checkpoints/.step_00000002.tmp-*/optimizer.safetensors: No "
       "space left on device",
       1, "new", -1},
      {"save of a run that goes on", "",
       "train c.json --override --set training.train_iters=3 --inject full@save=1000",
       "step 3 is not saved: cannot write runs/tiny/checkpoints/.step_00000003.tmp-*/model.safetensors: No "
       "space left on device",
       1, "runs/tiny/metrics.jsonl runs/tiny/config.json runs/tiny/origins.json", -1},
  });
}

}  // namespace
}  // namespace strata::test
