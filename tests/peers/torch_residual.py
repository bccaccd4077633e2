"""Residual connections of the PyTorch model: vanilla, attnres, msar, mhc.

A stream hands each sub-layer its input (read), takes its output (write) and is read out (top).
"""
import torch
import torch.nn.functional as F
from torch import nn


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class Vanilla:
    """h <- h + f(h)"""

    def __init__(self, model, h):
        self.h = h

    def read(self, target):
        return self.h

    def write(self, y):
        self.h = self.h + y

    top = read


class CausalConv(nn.Module):
    """Depthwise, column = lag."""

    def __init__(self, d, taps):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d, taps))

    def forward(self, x):
        taps = self.weight.shape[1]
        x = F.pad(x.transpose(1, 2), (taps - 1, 0))
        return F.conv1d(x, self.weight.flip(1).unsqueeze(1), groups=x.shape[1]).transpose(1, 2)


class SourceViews(nn.Module):
    """A source [B,T,d] as m views: itself and its convolutions; with 1/RMS of each."""

    def __init__(self, c, r):
        super().__init__()
        self.m, self.eps = r["streams"], r["key_norm_eps"]
        taps = r["kernel_sizes"] if r["expansion"] == "causal_conv" else []
        self.conv = nn.ModuleDict({str(i + 1): CausalConv(c["hidden_size"], k)
                                   for i, k in enumerate(taps)})

    def forward(self, x):
        views = [x] + [conv(x) for conv in self.conv.values()]
        views += [x] * (self.m - len(views))
        return [(v, (v.square().mean(-1, keepdim=True) + self.eps).rsqrt()) for v in views]


class Retrieval(nn.Module):
    """For each view a softmax over the sources; the gated sum (or mean) of the views' results."""

    def __init__(self, c, r):
        super().__init__()
        d, m = c["hidden_size"], r["streams"]
        self.eps = r["key_norm_eps"]
        self.query = nn.Parameter(torch.empty((d,) if r["type"] == "attnres" else (m, d)))
        self.key_norm = nn.RMSNorm(d, self.eps)
        self.gate = None
        if r["type"] == "msar" and r["fusion"] == "gate":
            self.gate = linear(m * d, m)
            self.gate.scale = nn.Parameter(torch.empty(1))
            self.gate.bias = nn.Parameter(torch.empty(m))

    def forward(self, sources):
        keys = (self.query * self.key_norm.weight).view(-1, self.key_norm.weight.shape[0])
        results = [self.retrieve(u, views) for u, views in zip(keys, zip(*sources))]
        if self.gate is None:
            return sum(results) / len(results)
        flat = torch.cat(results, -1)
        norm = F.rms_norm(flat, flat.shape[-1:], eps=self.eps)
        g = torch.sigmoid(self.gate.scale * F.linear(norm, self.gate.weight) + self.gate.bias)
        return sum(z * w for z, w in zip(results, g.split(1, -1)))

    @staticmethod
    def retrieve(u, views):
        scores = [(v @ u).unsqueeze(-1) * rstd for v, rstd in views]
        p = torch.cat(scores, -1).softmax(-1).split(1, -1)
        z = p[0] * views[0][0]
        for weight, (v, _) in zip(p[1:], views[1:]):
            z = torch.addcmul(z, weight, v)
        return z


class DepthRetrieval:
    """attnres, msar: sub-layers read the sums of blocks, the open block's partial sum last."""

    def __init__(self, model, h):
        self.sets, self.size = model.residual_sources, model.block_size
        self.first, self.partial, self.count = h, None, 0
        self.done = [self.sets[0](h)]

    def read(self, target):
        if target is None:
            return self.first
        return target(self.done if self.partial is None else self.done + [self.views()])

    def write(self, y):
        self.partial = y if self.partial is None else self.partial + y
        self.count += 1
        if self.count % self.size == 0:
            self.close()

    def views(self):
        return self.sets[len(self.done)](self.partial)

    def close(self):
        self.done, self.partial = self.done + [self.views()], None

    def top(self, target):
        if self.partial is not None:
            self.close()
        return target(self.done)


class StreamMixing(nn.Module):
    """Coefficients of one mHC sub-layer, from X [B,T,n,d]."""

    def __init__(self, c, r):
        super().__init__()
        n = self.n = r["streams"]
        self.eps, self.iters = r["key_norm_eps"], r["sinkhorn_iters"]
        self.phi = linear(n * c["hidden_size"], n * n + 2 * n)
        for name, shape in (("pre", (n,)), ("post", (n,)), ("res", (n, n))):
            setattr(self, "alpha_" + name, nn.Parameter(torch.empty(1)))
            setattr(self, "bias_" + name, nn.Parameter(torch.empty(shape)))

    def forward(self, x):
        n = self.n
        y = self.phi(F.rms_norm(x.flatten(2), (self.phi.in_features,), eps=self.eps))
        pre, post, res = y.split([n, n, n * n], -1)
        pre = torch.sigmoid(self.alpha_pre * pre + self.bias_pre)
        post = 2 * torch.sigmoid(self.alpha_post * post + self.bias_post)
        res = self.alpha_res * res.unflatten(-1, (n, n)) + self.bias_res
        res = (res - res.amax(-2, keepdim=True)).exp()
        for _ in range(self.iters):
            res = res / res.sum(-2, keepdim=True)
            res = res / res.sum(-1, keepdim=True)
        return pre, post, res


class HeadMix(nn.Module):
    def __init__(self, c, r):
        super().__init__()
        n = r["streams"]
        self.eps, self.phi = r["key_norm_eps"], linear(n * c["hidden_size"], n)
        self.alpha, self.bias = nn.Parameter(torch.empty(1)), nn.Parameter(torch.empty(n))

    def forward(self, x):
        y = self.phi(F.rms_norm(x.flatten(2), (self.phi.in_features,), eps=self.eps))
        return torch.sigmoid(self.alpha * y + self.bias)


class HyperConnections:
    """mhc: X <- H_res X + H_post f(H_pre X)"""

    def __init__(self, model, h):
        self.x = h.unsqueeze(2).expand(-1, -1, model.c["residual"]["streams"], -1)

    def read(self, target):
        pre, self.post, self.res = target(self.x)
        return (pre.unsqueeze(-2) @ self.x).squeeze(-2)

    def write(self, y):
        self.x = self.res @ self.x + self.post.unsqueeze(-1) * y.unsqueeze(-2)

    def top(self, target):
        return (target(self.x).unsqueeze(-2) @ self.x).squeeze(-2)
