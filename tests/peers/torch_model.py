"""The model in eager PyTorch, parameters under strata's names.

Multi-head latent attention, mixture of experts with a sigmoid router, and the residual types
vanilla, attnres, msar and mhc. No document masks and no multi-token prediction.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch_residual import (DepthRetrieval, HeadMix, HyperConnections, Retrieval, SourceViews,
                            StreamMixing, Vanilla, linear)


class SwiGLU(nn.Module):
    def __init__(self, d, width):
        super().__init__()
        self.gate_proj, self.up_proj = linear(d, width), linear(d, width)
        self.down_proj = linear(width, d)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Attention(nn.Module):
    """Multi-head latent attention, rotary on interleaved pairs."""

    def __init__(self, c):
        super().__init__()
        d, heads, eps = c["hidden_size"], c["num_attention_heads"], c["rms_norm_eps"]
        self.heads, self.latent = heads, c["kv_lora_rank"]
        self.nope, self.rope = c["qk_nope_head_dim"], c["qk_rope_head_dim"]
        self.value = c["v_head_dim"]
        width, rank = heads * (self.nope + self.rope), c["q_lora_rank"]
        if rank:
            self.q_a_proj, self.q_a_layernorm = linear(d, rank), nn.RMSNorm(rank, eps)
            self.q_b_proj = linear(rank, width)
        else:
            self.q_proj = linear(d, width)
        self.kv_a_proj_with_mqa = linear(d, self.latent + self.rope)
        self.kv_a_layernorm = nn.RMSNorm(self.latent, eps)
        self.kv_b_proj = linear(self.latent, heads * (self.nope + self.value))
        self.o_proj = linear(heads * self.value, d)

    def forward(self, x, rotary):
        if hasattr(self, "q_proj"):
            q = self.q_proj(x)
        else:
            q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        q_nope, q_rope = self.split_heads(q).split([self.nope, self.rope], -1)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([self.latent, self.rope], -1)
        kv = self.split_heads(self.kv_b_proj(self.kv_a_layernorm(latent)))
        k_nope, v = kv.split([self.nope, self.value], -1)
        k_rope = rotate(k_rope.unsqueeze(1), rotary).expand(-1, self.heads, -1, -1)
        q = torch.cat([q_nope, rotate(q_rope, rotary)], -1)
        k = torch.cat([k_nope, k_rope], -1)
        # The flash kernel wants one width for queries, keys and values.
        width = max(self.nope + self.rope, self.value)
        q, k, v = (F.pad(t, (0, width - t.shape[-1])) for t in (q, k, v))
        scale = (self.nope + self.rope) ** -0.5
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        return self.o_proj(y[..., :self.value].transpose(1, 2).flatten(2))

    def split_heads(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def rotary_table(c, length, dtype):
    dim = c["qk_rope_head_dim"]
    speed = c["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * speed
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x, rotary):
    cos, sin = rotary
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Router(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.weight = nn.Parameter(torch.empty(c["n_routed_experts"], c["hidden_size"]))
        self.register_buffer("e_score_correction_bias", torch.zeros(c["n_routed_experts"]))

    def forward(self, x):
        """x [B,T,d]: chosen experts and their gates [B*T,K], and the balance losses."""
        c = self.c
        logits = F.linear(x.flatten(0, 1), self.weight)
        score = logits.sigmoid()
        choice = (score + self.e_score_correction_bias).detach()
        if c["n_group"] > 1:
            groups = choice.unflatten(1, (c["n_group"], -1))
            best = groups.topk(2, -1).values.sum(-1).topk(c["topk_group"], -1).indices
            out = torch.ones(groups.shape[:2], dtype=torch.bool).scatter(1, best, False)
            choice = groups.masked_fill(out[..., None], -math.inf).flatten(1)
        chosen = choice.topk(c["num_experts_per_tok"], -1).indices
        gates = score.gather(1, chosen)
        if c["norm_topk_prob"]:
            gates = gates / gates.sum(-1, keepdim=True)
        return chosen, gates * c["routed_scaling_factor"], self.balance(score, logits, x.shape[:2])

    def balance(self, score, logits, shape):
        c, loss = self.c, 0.0
        if c["seq_aux_loss_coef"]:
            experts, k = c["n_routed_experts"], c["num_experts_per_tok"]
            taken = torch.zeros_like(score).scatter(1, score.detach().topk(k, -1).indices, 1.0)
            f = taken.unflatten(0, shape).mean(1) * (experts / k)
            p = (score / score.sum(-1, keepdim=True)).unflatten(0, shape).mean(1)
            loss = loss + c["seq_aux_loss_coef"] * (f * p).sum(-1).mean()
        if c["router_z_loss_coef"]:
            loss = loss + c["router_z_loss_coef"] * logits.logsumexp(-1).square().mean()
        return loss


class MoE(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, width = c["hidden_size"], c["moe_intermediate_size"]
        self.gate = Router(c)
        self.experts = nn.ModuleList(SwiGLU(d, width) for _ in range(c["n_routed_experts"]))
        shared = c["n_shared_experts"] * width
        self.shared_experts = SwiGLU(d, shared) if shared else None

    def forward(self, x):
        """Tokens sorted by expert, one slice for each expert, weighted and added back."""
        chosen, gates, loss = self.gate(x)
        flat = x.flatten(0, 1)
        order = chosen.flatten().argsort(stable=True)
        token = order // chosen.shape[1]
        counts = chosen.flatten().bincount(minlength=len(self.experts)).tolist()
        slices = flat.index_select(0, token).split(counts)
        y = torch.cat([expert(rows) for expert, rows in zip(self.experts, slices)])
        y = y * gates.flatten().index_select(0, order)[:, None]
        shared = self.shared_experts(flat) if self.shared_experts else torch.zeros_like(flat)
        return shared.index_add(0, token, y).view_as(x), loss


class Layer(nn.Module):
    def __init__(self, c, index):
        super().__init__()
        d, eps, r = c["hidden_size"], c["rms_norm_eps"], c["residual"]
        self.input_layernorm = nn.RMSNorm(d, eps)
        self.post_attention_layernorm = nn.RMSNorm(d, eps)
        self.self_attn = Attention(c)
        moe = c["n_routed_experts"] and index >= c["first_k_dense_replace"]
        self.mlp = MoE(c) if moe else SwiGLU(d, c["intermediate_size"])
        first = index == 0 and r["type"] in ("attnres", "msar")
        self.attn_res = None if first else target_module(c, r)
        self.mlp_res = target_module(c, r)

    def forward(self, stream, rotary):
        """One layer on the residual stream; returns its balance losses."""
        h = stream.read(self.attn_res)
        stream.write(self.self_attn(self.input_layernorm(h), rotary))
        h = self.post_attention_layernorm(stream.read(self.mlp_res))
        y, loss = self.mlp(h) if isinstance(self.mlp, MoE) else (self.mlp(h), 0.0)
        stream.write(y)
        return loss


def target_module(c, r):
    if r["type"] == "vanilla":
        return None
    return StreamMixing(c, r) if r["type"] == "mhc" else Retrieval(c, r)


class Trunk(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, r = c, c["residual"]
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c["num_hidden_layers"]))
        self.norm = nn.RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.out_res = HeadMix(c, r) if r["type"] == "mhc" else target_module(c, r)
        if r["type"] in ("attnres", "msar"):
            sublayers = 2 * c["num_hidden_layers"]
            self.block_size = math.ceil(sublayers / (r["num_blocks"] or sublayers))
            blocks = math.ceil(sublayers / self.block_size)
            self.residual_sources = nn.ModuleList(SourceViews(c, r) for _ in range(blocks + 1))

    def forward(self, ids):
        h = self.embed_tokens(ids)
        rotary = rotary_table(self.c, ids.shape[1], h.dtype)
        stream = STREAMS[self.c["residual"]["type"]](self, h)
        losses = [layer(stream, rotary) for layer in self.layers]
        return self.norm(stream.top(self.out_res)), sum(losses)


STREAMS = {"vanilla": Vanilla, "attnres": DepthRetrieval, "msar": DepthRetrieval,
           "mhc": HyperConnections}
DEFAULTS = {"attention": "mla", "q_lora_rank": None, "n_routed_experts": 0, "n_shared_experts": 0,
            "first_k_dense_replace": 0, "scoring_func": "sigmoid", "norm_topk_prob": True,
            "routed_scaling_factor": 1.0, "n_group": 1, "topk_group": 1, "seq_aux_loss_coef": 0.0,
            "router_z_loss_coef": 0.0, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
            "tie_word_embeddings": False, "num_nextn_predict_layers": 0,
            "initializer_range": 0.006, "residual": {"type": "vanilla"}}
KERNEL_SIZES = {1: [], 2: [4], 3: [4, 8], 4: [4, 8, 12], 8: [2, 4, 6, 8, 10, 12, 16]}


class Model(nn.Module):
    def __init__(self, section):
        """section: the "model" section of a strata config."""
        super().__init__()
        c = self.c = DEFAULTS | section
        r = {"num_blocks": None, "streams": 4, "expansion": "causal_conv", "fusion": "gate",
             "sinkhorn_iters": 20, "readout": "head_mix", "key_norm_eps": 1e-6,
             "conv_init_std": 0.02} | c["residual"]
        if r["type"] == "attnres":
            r |= {"streams": 1, "expansion": "none"}
        r.setdefault("kernel_sizes", KERNEL_SIZES.get(r["streams"]))
        c["residual"] = r
        if (c["attention"] != "mla" or c["scoring_func"] != "sigmoid" or c["tie_word_embeddings"]
                or c["num_nextn_predict_layers"] or r["type"] not in STREAMS
                or r["readout"] != "head_mix"):
            raise ValueError("only mla, sigmoid, untied, no multi-token prediction, "
                             "residuals vanilla, attnres, msar and mhc with head_mix")
        self.model = Trunk(c)
        self.lm_head = linear(c["hidden_size"], c["vocab_size"])

    def forward(self, ids, labels):
        """ids, labels [B,T]: logits [B,T,V], mean loss over the counted labels, balance losses."""
        h, aux = self.model(ids)
        logits = self.lm_head(h)
        return logits, F.cross_entropy(logits.flatten(0, 1), labels.flatten()), aux

    @torch.no_grad()
    def initialize(self):
        for name, p in self.named_parameters():
            if "norm" in name:
                p.fill_(1.0)
            elif ".conv." in name:
                p.normal_(0.0, self.c["residual"]["conv_init_std"])[:, 0] += 1.0
            elif "scale" in name or "alpha" in name:
                p.fill_(0.01)
            elif "bias" in name or "query" in name:
                p.zero_()
                if name.endswith("bias_res"):
                    p.fill_(-3.0).fill_diagonal_(3.0)
                elif name.endswith("bias_pre"):
                    index = 2 * int(name.split(".")[2]) + ("mlp_res" in name) + 1
                    p.fill_(-3.0)[index % p.numel()] = 3.0
            else:
                p.normal_(0.0, self.c["initializer_range"])
        return self


def decays(name, p):
    """Weight decay: all matrices but queries, convolutions and biases."""
    return p.dim() > 1 and not any(part in name for part in ("query", ".conv.", "bias"))
