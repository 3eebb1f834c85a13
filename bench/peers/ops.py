"""What PyTorch computes on the inputs of bench/accuracy.cpp, in f32 and in f64, forward and backward.

    ops.py inputs.safetensors outputs.safetensors

An input is called "OP/ROWS/NAME", as "softmax/long/x"; a result the same, as "softmax/long/dx", and in f64
"softmax/long/dx/f64".
"""

import collections
import sys

import tensor_file
import torch
import torch.nn.functional as F


def softmax(x, dy):
    y = torch.softmax(x, -1)
    y.backward(dy)
    return {"y": y, "dx": x.grad}


def layer_norm(x, dy):
    y = F.layer_norm(x, x.shape[-1:])
    y.backward(dy)
    return {"y": y, "dx": x.grad}


def cross_entropy(x, targets):
    y = F.cross_entropy(x, targets, reduction="none")
    y.backward(torch.ones_like(y))
    return {"y": y, "dx": x.grad}


def attention(q, k, v, dy, allowed=None):
    y = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=allowed)[0]
    y.backward(dy)
    return {"y": y, "dq": q.grad, "dk": k.grad, "dv": v.grad}


OPS = {f.__name__: f for f in (softmax, layer_norm, cross_entropy, attention)}
DIFFERENTIATED = {"x", "q", "k", "v"}


def converted(name, array, dtype):
    tensor = torch.from_numpy(array)
    if name == "targets":
        return tensor.long()
    if name == "allowed":
        return tensor.bool()
    return tensor.to(dtype).clone().requires_grad_(name in DIFFERENTIATED)


def main(inputs_path, outputs_path):
    calls = collections.defaultdict(dict)
    for name, array in tensor_file.read(inputs_path).items():
        call, _, argument = name.rpartition("/")
        calls[call][argument] = array
    results = {}
    for call, arguments in calls.items():
        for dtype, ending in ((torch.float32, ""), (torch.float64, "/f64")):
            tensors = {name: converted(name, array, dtype) for name, array in arguments.items()}
            for name, tensor in OPS[call.split("/")[0]](**tensors).items():
                results[f"{call}/{name}{ending}"] = tensor.detach().numpy()
    tensor_file.write(outputs_path, results)
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
