// Choosing experts (DeepSeek-V3, arXiv 2412.19437, eq. 13-18) with the balance loss of every
// sequence and the z-loss. Integer loads; sums over tokens run in token order.
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/router_scores.h"

#include <memory>
#include <vector>

namespace strata::kernels {
namespace {

// Everything one token needs, allocated once a chunk.
template <class A>
struct Choice {
  const RouterRule& rule;
  std::int64_t E, per_group;
  std::vector<A> value, group;
  std::vector<std::int32_t> picked;
  std::unique_ptr<bool[]> taken;

  Choice(const RouterRule& r, std::int64_t experts)
      : rule(r),
        E(experts),
        per_group(experts / r.groups),
        value(experts),
        group(r.groups),
        picked(std::max(experts, r.groups)),
        taken(new bool[std::max(experts, r.groups)]) {}

  // A group is worth the sum of its two best choice scores (sigmoid), or its best (softmax, or a group of
  // one).
  A worth(std::int64_t g) const {
    A first = -std::numeric_limits<A>::infinity(), second = first;
    for (std::int64_t e = g * per_group; e < (g + 1) * per_group; ++e) {
      if (value[e] > first)
        second = first, first = value[e];
      else if (value[e] > second)
        second = value[e];
    }
    return rule.scoring == Scoring::Softmax || per_group == 1 ? first : first + second;
  }
  void keep_best_groups() {
    if (rule.groups == 1) return;
    for (std::int64_t g = 0; g < rule.groups; ++g) group[g] = worth(g);
    top_k(group.data(), rule.groups, rule.top_groups, taken.get(), picked.data());
    for (std::int64_t e = 0; e < E; ++e)
      if (!taken[e / per_group]) value[e] = -std::numeric_limits<A>::infinity();
  }
  void choose(const A* scores, const A* bias, std::int32_t* out) {
    for (std::int64_t e = 0; e < E; ++e) value[e] = scores[e] + (bias ? bias[e] : A(0));
    keep_best_groups();
    top_k(value.data(), E, rule.top_k, taken.get(), out);
  }
};

template <class A>
void gates_of(const RouterRule& rule, const A* logits, const A* scores, const std::int32_t* chosen,
              A* gates) {
  if (rule.normalize)
    shares(
        rule.scoring, logits, rule.top_k, [&](std::int64_t k) { return chosen[k]; }, gates);
  else
    for (std::int64_t k = 0; k < rule.top_k; ++k) gates[k] = scores[chosen[k]];
  for (std::int64_t k = 0; k < rule.top_k; ++k) gates[k] *= A(rule.scale);
}

std::int64_t length_of(std::int64_t tokens, std::int64_t batch) { return batch > 0 ? tokens / batch : 0; }

// sum_e f_e P_e of every sequence, summed; writes f. `share` [T,E] and `counted` [T,K] come from the tokens'
// pass.
template <class A>
A balance(const RouterForward& job, std::int64_t S, const A* share, const std::int32_t* counted,
          std::vector<A>& terms) {
  const std::int64_t B = job.batch, E = job.logits.dims[1], K = job.rule.top_k;
  A* fraction = job.fraction.as<A>();
  terms.assign(B, A(0));
  parallel_for(B, [&](std::int64_t b) {
    std::vector<std::int64_t> count(E, 0);
    std::vector<A> mean(E, A(0));
    for (std::int64_t t = b * S; t < (b + 1) * S; ++t) {
      for (std::int64_t k = 0; k < K; ++k) ++count[counted[t * K + k]];
      for (std::int64_t e = 0; e < E; ++e) mean[e] += share[t * E + e];
    }
    for (std::int64_t e = 0; e < E; ++e) {
      fraction[b * E + e] = A(E) * A(count[e]) / (A(K) * A(S));
      terms[b] += fraction[b * E + e] * mean[e] / A(S);
    }
  });
  A sum = 0;
  for (const A term : terms) sum += term;
  return sum;
}

template <class A>
void forward(CpuStream& stream, const RouterForward& job) {
  const std::int64_t T = job.logits.dims[0], E = job.logits.dims[1], K = job.rule.top_k;
  const bool balanced = job.rule.balance_coef != 0;
  const A *logits = job.logits.as<A>(), *bias = job.bias.as<A>();
  A *scores = job.scores.as<A>(), *gates = job.gates.as<A>();
  std::int32_t* indices = job.indices.as<std::int32_t>();
  A* share = stream.scratch<A>(T * (E + 1) + T * K);  // share [T,E], squared lse [T], counted [T,K] int32
  A* z = share + T * E;
  auto* counted = reinterpret_cast<std::int32_t*>(z + T);
  const Chunks chunks(T);
  parallel_for(chunks.count, [&](std::int64_t c) {
    Choice<A> choice(job.rule, E);
    for (std::int64_t t = chunks.begin(c); t < chunks.end(c); ++t) {
      const A* x = logits + t * E;
      A* s = scores + t * E;
      score(job.rule.scoring, x, E, s);
      choice.choose(s, bias, indices + t * K);
      gates_of(job.rule, x, s, indices + t * K, gates + t * K);
      const A lse = job.rule.z_coef != 0 ? log_sum_exp(x, E) : A(0);
      z[t] = lse * lse;
      if (!balanced) continue;
      shares(
          job.rule.scoring, x, E, [](std::int64_t e) { return e; }, share + t * E);
      if (job.rule.scoring == Scoring::Softmax)
        std::copy_n(indices + t * K, K, counted + t * K);
      else
        top_k(s, E, K, choice.taken.get(), counted + t * K);
    }
  });
  if (auto* load = job.load.as<std::int64_t>())
    for (std::int64_t i = 0; i < T * K; ++i) ++load[indices[i]];
  A aux = 0;
  for (std::int64_t t = 0; t < T; ++t) aux += z[t];
  aux *= A(job.rule.z_coef);
  std::vector<A> terms;
  if (balanced)
    aux += A(job.rule.balance_coef) * balance(job, length_of(T, job.batch), share, counted, terms);
  else
    std::fill_n(job.fraction.as<A>(), job.fraction.numel(), A(0));
  *job.aux.as<A>() = aux;
}

// Gradient of the gates, into d [E].
template <class A>
void gate_gradients(const RouterRule& rule, const A* dgates, const A* gates, const A* scores,
                    const std::int32_t* chosen, std::int64_t E, A* d) {
  const std::int64_t K = rule.top_k;
  if (rule.normalize) {  // gates / scale are shares of the chosen
    A mean = 0;
    for (std::int64_t k = 0; k < K; ++k) mean += dgates[k] * gates[k] / A(rule.scale);
    for (std::int64_t k = 0; k < K; ++k)
      d[chosen[k]] += gates[k] * (dgates[k] - mean) * log_score_slope(rule.scoring, scores[chosen[k]]);
    return;
  }
  if (rule.scoring == Scoring::Sigmoid) {
    for (std::int64_t k = 0; k < K; ++k) d[chosen[k]] += dgates[k] * gates[k] * (A(1) - scores[chosen[k]]);
    return;
  }
  A mean = 0;
  for (std::int64_t k = 0; k < K; ++k) mean += dgates[k] * gates[k];
  for (std::int64_t k = 0; k < K; ++k) d[chosen[k]] += dgates[k] * gates[k];
  for (std::int64_t e = 0; e < E; ++e) d[e] -= scores[e] * mean;
}

// Gradient of this token's part of the balance loss and the z-loss, times daux.
template <class A>
void aux_gradients(const RouterRule& rule, A daux, const A* x, const A* scores, const A* fraction,
                   std::int64_t S, std::int64_t E, A* p, A* d) {
  if (rule.balance_coef != 0) {
    shares(
        rule.scoring, x, E, [](std::int64_t e) { return e; }, p);
    A mean = 0;
    for (std::int64_t e = 0; e < E; ++e) mean += fraction[e] * p[e];
    for (std::int64_t e = 0; e < E; ++e)
      d[e] += daux * A(rule.balance_coef) / A(S) * p[e] * (fraction[e] - mean) *
              log_score_slope(rule.scoring, scores[e]);
  }
  if (rule.z_coef != 0) {
    const A lse = log_sum_exp(x, E);
    for (std::int64_t e = 0; e < E; ++e) d[e] += daux * A(2 * rule.z_coef) * lse * std::exp(x[e] - lse);
  }
}

template <class A>
void backward(const RouterBackward& job) {
  const std::int64_t T = job.logits.dims[0], E = job.logits.dims[1], K = job.rule.top_k;
  const std::int64_t S = length_of(T, job.batch);
  const A *logits = job.logits.as<A>(), *scores = job.scores.as<A>(), *gates = job.gates.as<A>();
  const A *fraction = job.fraction.as<A>(), *dgates = job.dgates.as<A>(), *daux = job.daux.as<A>();
  const std::int32_t* indices = job.indices.as<std::int32_t>();
  A* dlogits = job.dlogits.view.as<A>();
  const Chunks chunks(T);
  parallel_for(chunks.count, [&](std::int64_t c) {
    std::vector<A> d(E), p(E);
    for (std::int64_t t = chunks.begin(c); t < chunks.end(c); ++t) {
      std::fill(d.begin(), d.end(), A(0));
      const A *x = logits + t * E, *s = scores + t * E;
      if (dgates) gate_gradients(job.rule, dgates + t * K, gates + t * K, s, indices + t * K, E, d.data());
      if (daux) aux_gradients(job.rule, *daux, x, s, fraction + t / S * E, S, E, p.data(), d.data());
      for (std::int64_t e = 0; e < E; ++e) put(dlogits[t * E + e], d[e], job.dlogits.mode);
    }
  });
}

}  // namespace

void run(CpuStream& stream, const RouterForward& job) {
  for_acc(job.logits.dtype, [&]<class A>() { forward<A>(stream, job); });
}
void run(CpuStream&, const RouterBackward& job) {
  if (job.dlogits) for_acc(job.logits.dtype, [&]<class A>() { backward<A>(job); });
}

void run(CpuStream&, const RouterBiasUpdate& job) {
  const std::int64_t E = job.load.numel();
  auto* load = job.load.as<std::int64_t>();
  std::int64_t total = 0;
  for (std::int64_t e = 0; e < E; ++e) total += load[e];
  for_acc(job.bias.dtype, [&]<class A>() {
    A* bias = job.bias.as<A>();
    for (std::int64_t e = 0; e < E; ++e) {
      const std::int64_t ahead = total - load[e] * E;  // E times (mean - load)
      bias[e] += A(job.speed) * A((ahead > 0) - (ahead < 0));
    }
  });
  std::fill(load, load + E, 0);
}

}  // namespace strata::kernels
