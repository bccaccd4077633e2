"""Training steps of the model in eager PyTorch: proves its numbers, then times it.

  torch_step.py --check CASE...               compare with CASE/{config.json,*.safetensors}
  torch_step.py --bench --config CONFIG.json  time steps on random tokens
"""
import argparse
import json
import os
import statistics
import struct
import sys
import time

import numpy as np
import torch
from torch_model import Model, decays

NUMPY = {"F32": np.float32, "F64": np.float64, "I64": np.int64}


def load_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    header.pop("__metadata__", None)
    return {name: torch.from_numpy(np.frombuffer(data[slice(*entry["data_offsets"])],
                                                 NUMPY[entry["dtype"]])
                                   .reshape(entry["shape"]).copy())
            for name, entry in header.items()}


def make_optimizer(model, lr, betas, eps, weight_decay):
    groups = [{"params": [p for n, p in model.named_parameters() if decays(n, p) == decayed],
               "weight_decay": weight_decay if decayed else 0.0} for decayed in (True, False)]
    return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=eps, fused=True)


def train_step(model, optimizer, ids, labels, clip):
    """One step; loss before it, gradient norm before clipping, and the clock between phases."""
    clock = [time.perf_counter()]
    _, loss, aux = model(ids, labels)
    loss = loss + aux
    clock.append(time.perf_counter())
    loss.backward()
    clock.append(time.perf_counter())
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    clock.append(time.perf_counter())
    return loss.item(), norm.item(), np.diff(clock)


def distance(a, reference, floor=0.0):
    a, reference = (torch.as_tensor(t, dtype=torch.float64) for t in (a, reference))
    return ((a - reference).norm() / max(reference.norm().item(), floor, 1e-300)).item()


def check(case, dtype):
    """Prints relative distances as `strata trace --compare` has them; whether all are small."""
    with open(os.path.join(case, "config.json")) as file:
        model = Model(json.load(file)["model"])
    weights, batch, expected = (load_safetensors(os.path.join(case, name + ".safetensors"))
                                for name in ("model", "batch", "expected"))
    if "doc_ids" in batch and batch["doc_ids"].unique().numel() > 1:
        raise ValueError("documents are not supported")
    model.load_state_dict(weights, strict=True)
    model.to(dtype)
    ids, labels = batch["input_ids"], batch["labels"]

    logits, loss, aux = model(ids, labels)
    (loss + aux).backward()
    total = torch.cat([g.flatten() for n, g in expected.items() if n.startswith("grad.")]).norm()
    worst = {
        "loss": distance((loss + aux).detach(), expected["loss"].squeeze()),
        "logits": distance(logits.detach(), expected["logits"]),
        "grad": max(distance(p.grad, expected["grad." + n], 1e-3 * total.item())
                    for n, p in model.named_parameters())}
    model.zero_grad()

    optimizer = make_optimizer(model, 3e-3, (0.9, 0.95), 1e-6, 0.1)
    steps = [train_step(model, optimizer, ids, labels, 1.0) for _ in expected["train.loss"]]
    worst["train.loss"] = distance([s[0] for s in steps], expected["train.loss"])
    worst["train.grad_norm"] = distance([s[1] for s in steps], expected["train.grad_norm"])
    worst["trained"] = max(distance(p.detach(), expected["trained." + n])
                           for n, p in model.named_parameters())
    print(os.path.basename(os.path.normpath(case)), str(dtype).removeprefix("torch."),
          *(f"{name} {value:.1e}" for name, value in worst.items()))
    if dtype == torch.float64:
        return worst["loss"] < 1e-9 and max(worst.values()) < 1e-6
    # AdamW magnifies the rounding of gradients near its eps, so float32 steps are only shown.
    return worst["loss"] < 1e-5 and max(worst["logits"], worst["grad"]) < 1e-4


def bench(args):
    with open(args.config) as file:
        config = json.load(file)
    if args.residual:
        config["model"]["residual"] = json.loads(args.residual)
    training, o = config.get("training", {}), config.get("optimizer", {})
    batch = args.micro_batch or training.get("micro_batch_size", 1)
    length = args.seq_length or training.get("seq_length", 512)

    torch.manual_seed(1234)
    model = Model(config["model"]).initialize()
    if args.weights:
        model.load_state_dict(load_safetensors(args.weights), strict=True)
    betas = o.get("beta1", 0.9), o.get("beta2", 0.95)
    optimizer = make_optimizer(model, o.get("lr", 3e-4), betas,
                               o.get("eps", 1e-8), o.get("weight_decay", 0.1))
    steps, cpu = [], 0.0
    for step in range(args.warmup + args.steps):
        tokens = torch.randint(config["model"]["vocab_size"], (batch, length + 1))
        begin = time.process_time()
        loss, _, phases = train_step(model, optimizer, tokens[:, :-1], tokens[:, 1:],
                                     o.get("clip_grad", 1.0))
        if step >= args.warmup:
            steps.append(phases)
            cpu += time.process_time() - begin
        print(f"step {step + 1} loss {loss:.4f} seconds {phases.sum():.3f}", file=sys.stderr)
    forward, backward, update = (statistics.median(column) for column in zip(*steps))
    seconds = statistics.median(phases.sum() for phases in steps)
    tokens_s = batch * length / seconds
    # Well below 1 means that other programs had the cores: time again.
    share = cpu / (sum(phases.sum() for phases in steps) * torch.get_num_threads())
    print(f"{seconds:.3f} s a step (forward {forward:.3f}, backward {backward:.3f}, "
          f"optimizer {update:.3f}), {tokens_s:.0f} tokens/s, "
          f"share of its threads' CPU time {share:.2f}")
    print(json.dumps({
        "peer": "torch " + torch.__version__, "residual": model.c["residual"]["type"],
        "parameters": sum(p.numel() for p in model.parameters()), "micro_batch": batch,
        "seq_length": length, "threads": torch.get_num_threads(), "steps": args.steps,
        "seconds_step": round(seconds, 4), "seconds_forward": round(forward, 4),
        "seconds_backward": round(backward, 4), "seconds_optimizer": round(update, 4),
        "tokens_s": round(tokens_s, 1), "cpu_share": round(share, 3)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", nargs="+", metavar="CASE", help="folders of reference cases")
    mode.add_argument("--bench", action="store_true")
    parser.add_argument("--config", help="strata config JSON")
    parser.add_argument("--residual", help="JSON in place of the config's model.residual")
    parser.add_argument("--weights", help="model.safetensors in place of random weights")
    parser.add_argument("--micro-batch", type=int, help="sequences a step; default: the config's")
    parser.add_argument("--seq-length", type=int, help="tokens a sequence; default: the config's")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2, help="steps before, not counted")
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.check:
        passed = [check(case, dtype) for case in args.check
                  for dtype in (torch.float64, torch.float32)]
        return int(not all(passed))
    if not args.config:
        parser.error("--bench needs --config")
    bench(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
