// `strata plot`: what the page shows is what the metrics say.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <regex>

#include "strata_binary.h"
#include "support/temp_folder.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using Points = std::vector<std::pair<double, double>>;

int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

// One chart read off the page by its axes: labels and where they stand give the scale.
struct ReadChart {
  std::string svg;
  bool log = false;

  ReadChart(const std::string& page, const std::string& title, bool log_y = false) : log(log_y) {
    const std::size_t begin = page.find("<figcaption>" + title);
    EXPECT_NE(begin, std::string::npos) << title;
    if (begin != std::string::npos) svg = page.substr(begin, page.find("</figure>", begin) - begin);
  }

  static double number(const std::string& label) {
    const double unit = label.ends_with("k") ? 1e3 : label.ends_with("M") ? 1e6 : 1;
    return std::stod(label) * unit;
  }
  // Where the axis has its first and last tick, and what they say.
  struct Scale {
    double at0, v0, at1, v1;
    double value(double at) const { return v0 + (at - at0) / (at1 - at0) * (v1 - v0); }
  };
  Scale scale(const std::string& pattern) const {
    std::vector<std::pair<double, double>> ticks;
    const std::regex text(pattern);
    for (std::sregex_iterator i(svg.begin(), svg.end(), text), end; i != end; ++i)
      ticks.emplace_back(std::stod((*i)[1]), number((*i)[2]));
    EXPECT_GE(ticks.size(), 2u) << pattern;
    if (ticks.size() < 2) return {0, 0, 1, 1};
    return {ticks.front().first, ticks.front().second, ticks.back().first, ticks.back().second};
  }

  // The lines of a class such as "c0", each as its points.
  std::vector<Points> lines(const std::string& style) const {
    const Scale x = scale("<text x='([0-9.]+)' y='276'>([^<]+)</text>");
    Scale y = scale("<text class='y' x='[0-9.]+' y='([0-9.]+)'>([^<]+)</text>");
    if (log) y.v0 = std::log10(y.v0), y.v1 = std::log10(y.v1);
    std::vector<Points> all;
    const std::regex group("<g class='" + style + "'><title>[^<]*</title><path d='([^']*)'/>"),
        point("([ML])([0-9.]+) ([0-9.]+)");
    for (std::sregex_iterator g(svg.begin(), svg.end(), group), end; g != end; ++g) {
      const std::string path = (*g)[1];
      Points points;
      for (std::sregex_iterator p(path.begin(), path.end(), point); p != end; ++p) {
        const double v = y.value(std::stod((*p)[3]));
        points.emplace_back(x.value(std::stod((*p)[2])), log ? std::pow(10, v) : v);
      }
      all.push_back(points);
    }
    return all;
  }
};

class Plot : public ::testing::Test {
 protected:
  void run(const std::string& name, const std::string& metrics) const {
    fs::create_directories(place.path(name));
    place.write(name + "/metrics.jsonl", metrics);
  }
  std::string page(std::vector<std::string> runs) const {
    runs.insert(runs.begin(), "plot");
    runs.insert(runs.end(), {"--out", "page.html"});
    const Outcome o = place.strata(runs);
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.out, "page.html\n");
    return place.read("page.html");
  }
  Workplace place;
};

TEST_F(Plot, DrawsValuesWhereTheAxesSay) {
  run("a", R"({"iteration":1,"lm loss":5.5,"grad norm":0.01,"learning rate":1e-5,"tokens per second":12000}
{"iteration":2,"lm loss":"nan","grad norm":7,"learning rate":0.0003,"tokens per second":45000}
{"iteration":5,"lm loss":"inf","grad norm":0,"learning rate":0.0003}
{"iteration":9,"lm loss":3.25,"grad norm":0.5,"learning rate":0.0001}
)");
  const std::string html = page({"a"});
  const std::vector<Points> loss = ReadChart(html, "training loss").lines("c0");
  ASSERT_EQ(loss.size(), 1u);
  ASSERT_EQ(loss[0].size(), 2u) << "NaN is a gap";
  EXPECT_NEAR(loss[0][0].first, 1, 0.02);
  EXPECT_NEAR(loss[0][0].second, 5.5, 0.01);
  EXPECT_NEAR(loss[0][1].first, 9, 0.02);
  EXPECT_NEAR(loss[0][1].second, 3.25, 0.01);
  EXPECT_EQ(count(html, " nan") + count(html, "inf"), 0);
  EXPECT_NEAR(ReadChart(html, "tokens per second").lines("c0").at(0).at(1).second, 45000, 30);
  const std::vector<Points> norm = ReadChart(html, "gradient norm", true).lines("c0");
  ASSERT_EQ(norm.at(0).size(), 3u) << "0 has no logarithm";
  for (const auto& [i, want] : {std::pair{0, 0.01}, {1, 7.0}, {2, 0.5}})
    EXPECT_NEAR(norm[0][std::size_t(i)].second, want, 0.02 * want);
  EXPECT_NEAR(ReadChart(html, "learning rate").lines("c0").at(0).at(1).second, 3e-4, 1e-6);
  EXPECT_NE(html.find("<tr><td>lm loss<td>3.25\n"), std::string::npos);
  EXPECT_EQ(count(html, "<figure>"), 4) << "what was not measured is not drawn";
  EXPECT_EQ(count(html, "http"), count(html, "<svg xmlns='http://www.w3.org/2000/svg' ")) << "that is a name";
  for (const char* outside : {"<script", "src=", "@import", "url("})
    EXPECT_EQ(count(html, outside), 0) << outside;
  EXPECT_NE(html.find("<title>training loss (nats per token): 3.25 at 9</title>"), std::string::npos);
}

// Elements closed in order, attributes quoted, entities for what is special: what is left over of a chart.
std::string not_xml(std::string svg) {
  svg = svg.substr(svg.find("<svg"), svg.find("</svg>") + 6 - svg.find("<svg"));
  const std::regex innermost(
      "<([a-z]+)( [a-zA-Z-]+='([^<&']|&[a-z#0-9]+;)*')*(/>|>([^<&]|&[a-z#0-9]+;)*</\\1>)");
  for (std::string shorter; !svg.empty(); svg = shorter)
    if ((shorter = std::regex_replace(svg, innermost, "")) == svg) break;
  return svg;
}

TEST_F(Plot, AxesOfTheLargestDoublesAreFinite) {
  run("a", R"({"iteration":1,"learning rate":-1.7e308,"grad norm":1e-300}
{"iteration":2,"learning rate":1.7e308,"grad norm":1.7e308}
)");
  const std::string html = page({"a"});
  for (const ReadChart& chart : {ReadChart(html, "learning rate"), ReadChart(html, "gradient norm", true)}) {
    EXPECT_EQ(count(chart.svg, "nan") + count(chart.svg, "inf"), 0);
    EXPECT_EQ(chart.lines("c0").at(0).size(), 2u);
    EXPECT_LT(count(chart.svg, "class='y'"), 15);
  }
}

TEST_F(Plot, LongCurvesAreThinnedWithTheirExtremesAndSmoothed) {
  constexpr int kSteps = 5000;
  std::string lines;
  for (int i = 1; i <= kSteps; ++i) {
    const double loss = i == 3333 ? 400 : 2 + (i % 2 ? 0.5 : -0.5);
    lines += "{\"iteration\":" + std::to_string(i) + ",\"lm loss\":" + std::to_string(loss) + "}\n";
  }
  run("a", lines);
  const ReadChart chart(page({"a"}), "training loss");
  const Points raw = chart.lines("c0 faint").at(0), mean = chart.lines("c0").at(0);
  EXPECT_GT(raw.size(), 800u);
  EXPECT_LE(raw.size(), 1000u);
  EXPECT_LE(mean.size(), 1000u);
  const auto highest = [](const Points& line) {
    return *std::max_element(line.begin(), line.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; });
  };
  EXPECT_NEAR(highest(raw).second, 400, 1);
  EXPECT_NEAR(highest(raw).first, 3333, 10);
  EXPECT_NEAR(highest(mean).second, 2 + 398.0 / 101, 0.3) << "fifty steps on both sides";
  EXPECT_NEAR(highest(mean).first, 3333, 60);
  EXPECT_NE(chart.svg.find("<title>training loss (nats per token), as logged: "), std::string::npos);
  EXPECT_NE(chart.svg.find("smoothed over 2 % of the run, 3 steps at least; faint: as logged"),
            std::string::npos);
}

TEST_F(Plot, RunsAgainstEachOther) {
  run("x/one", R"({"iteration":1,"lm loss":5,"gate mean stream 1":0.25,"gate mean stream 2":0.75}
{"iteration":2,"lm loss":4,"dead experts":0}
{"iteration":2,"lm loss validation a&b":4.5,"lm loss validation a&b PPL":90}
)");
  run("x/<two>",
      R"({"iteration":1,"lm loss":6,"output norm sublayer 1":1,"output norm sublayer 10":3,"output norm sublayer 2":2}
{"iteration":4,"lm loss":2,"output norm sublayer 1":4,"output norm sublayer 10":6,"output norm sublayer 2":5}
)");
  const std::string html = page({"x/one", "x/<two>/metrics.jsonl"});
  EXPECT_NE(html.find("<title>strata: one and &lt;two></title>"), std::string::npos);
  EXPECT_EQ(count(html, "<two>"), 0);
  const ReadChart loss(html, "training loss");
  EXPECT_NEAR(loss.lines("c0").at(0).at(1).second, 4, 0.02);
  EXPECT_NEAR(loss.lines("c1").at(0).at(1).second, 2, 0.02);
  EXPECT_NE(
      loss.svg.find("<div class=legend><span class='c0'>one</span><span class='c1'>&lt;two></span></div>"),
      std::string::npos);
  const ReadChart norms(html, "RMS of");
  const Points last = norms.lines("c1").at(0), first = norms.lines("c1 dashed").at(0);
  ASSERT_EQ(last.size(), 3u);
  for (const auto& [i, place, value] : {std::tuple{0, 1, 4}, {1, 2, 5}, {2, 10, 6}}) {
    EXPECT_NEAR(last[std::size_t(i)].first, place, 0.05) << "in the order of depth, not of words";
    EXPECT_NEAR(last[std::size_t(i)].second, value, 0.05);
    EXPECT_NEAR(first[std::size_t(i)].second, value - 3, 0.05);
  }
  EXPECT_NE(norms.svg.find("<title>&lt;two>, dashed: 3 at 10</title>"), std::string::npos) << norms.svg;
  for (const char* title : {"training loss", "RMS of", "gate, mean", "validation loss, a&amp;b"})
    EXPECT_EQ(not_xml(ReadChart(html, title).svg), "") << "an <svg> stands alone";
  EXPECT_EQ(count(html, "<figcaption>gate, mean over targets: one<"), 1);
  EXPECT_EQ(count(html, "<figcaption>validation loss, a&amp;b (nats per token)<"), 1);
  EXPECT_EQ(count(html, "PPL"), 1) << "in the table";
  EXPECT_EQ(count(html, "experts without a token"), 0) << "nothing but zeros";
  EXPECT_NE(html.find("<tr><td>lm loss<td>4<td>2\n"), std::string::npos);
}

TEST_F(Plot, RunThatGoesOnAndStepsThatAreThereTwice) {
  run("a",
      "{\"iteration\":1,\"lm loss\":9}\n{\"iteration\":2,\"lm loss\":8}\n{\"iteration\":2,\"lm "
      "loss\":7}\n{\"iter");
  EXPECT_NE(page({"a/"}).find("<h1>a</h1>\n<p>a: a/metrics.jsonl, to step 2</p>"), std::string::npos);
  EXPECT_EQ(count(place.read("page.html"), "<circle "), 2) << "steps 1 and 2";
  EXPECT_NE(place.read("page.html").find("<tr><td>lm loss<td>7\n"), std::string::npos);
}

TEST_F(Plot, BadInputIsNamedAndNothingIsWritten) {
  const std::string good = "{\"iteration\":1,\"lm loss\":9}\n";
  run("good", good);
  fs::create_directories(place.path("empty"));
  run("none", "\n");
  const auto complaint = [&](const std::string& lines) {
    run("bad", good + lines);
    const Outcome o = place.strata({"plot", "good", "bad", "--out", "page.html"});
    EXPECT_EQ(o.status, 2) << o.err;
    return o.err;
  };
  EXPECT_EQ(
      complaint("{\"iteration\":2,\"lm loss\":}\n").find("strata: bad/metrics.jsonl:2:1:26: not valid JSON"),
      0u);
  EXPECT_EQ(complaint("{\"lm loss\":1}\n"),
            "strata: bad/metrics.jsonl:2: is no line of metrics: it has no \"iteration\"\n");
  EXPECT_EQ(complaint("[]\n"),
            "strata: bad/metrics.jsonl:2: is no line of metrics: it has no \"iteration\"\n");
  EXPECT_EQ(complaint("{\"iteration\":-2}\n"),
            "strata: bad/metrics.jsonl:2: \"iteration\" is -2, allowed is an integer from 0\n");
  EXPECT_EQ(complaint("{\"iteration\":2,\"lm loss\":\"NaN\"}\n"),
            "strata: bad/metrics.jsonl:2: \"lm loss\" is \"NaN\", allowed is a number, \"nan\", \"inf\" or "
            "\"-inf\"\n");
  for (const auto& [run, words] : {std::pair{"gone", "gone: there is no such run or file of metrics"},
                                   {"empty", "empty: has no metrics.jsonl, is it a run's folder?"},
                                   {"none", "none/metrics.jsonl:1: is empty, expected a JSON object"}}) {
    const Outcome o = place.strata({"plot", run, "--out", "page.html"});
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(o.err, std::string("strata: ") + words + "\n");
  }
  for (const auto& [out, told] :
       {std::pair{"good", "good is no file"}, {"no/such/page.html", "no folder no/such"}}) {
    const Outcome o = place.strata({"plot", "good", "--out", out});
    EXPECT_EQ(o.status, 2) << o.err;
    EXPECT_EQ(o.err.find(std::string("strata: --out: ") + told), 0u) << o.err;
  }
  EXPECT_FALSE(fs::exists(place.path("page.html")));
}

TEST_F(Plot, TrainedRunFromItsFolderWithEventFilesOfBothParts) {
  place.write("text.txt", sample_text(900));
  ASSERT_EQ(place.strata({"prepare", "text.txt", "--output", "text"}).status, 0);
  const auto train = [&](const char* iterations) {
    return place.strata({"train", tiny_config(), "--override", "--set", R"(data.train=[{"path": "text"}])",
                         "--set", R"(data.validation={"set": {"path": "text"}})", "--set",
                         "training.eval_iters=1", "--set", "logging.tensorboard_dir=events", "--set",
                         "logging.jsonl=log/curves.jsonl", "--set",
                         std::string("training.train_iters=") + iterations});
  };
  for (const char* iterations : {"3", "5"}) ASSERT_EQ(train(iterations).status, 0);
  EXPECT_EQ(names_in(place.path("runs/tiny/events")).size(), 2u);
  for (const std::string& name : names_in(place.path("runs/tiny/events")))
    for (const char* tag :
         {"train/lm loss", "validation/lm loss validation set", "experts/dead experts layer 1"})
      EXPECT_NE(place.read("runs/tiny/events/" + name).find(tag), std::string::npos) << name << " " << tag;
  const std::string html = page({"runs/tiny"});
  for (const char* heading : {"Loss", "Optimisation and speed", "Experts", "Attention over depth", "Outputs"})
    EXPECT_EQ(count(html, std::string("<h2>") + heading + "</h2>"), 1) << heading;
  EXPECT_EQ(ReadChart(html, "gate, mean over targets").lines("c1").at(0).size(), 3u) << "steps 1, 3, 5";
}

}  // namespace
}  // namespace strata::test
