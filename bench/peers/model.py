"""What PyTorch computes of the model of bench/model_accuracy.cpp, in f32 and in f64, forward and backward.

    model.py inputs.safetensors heads outputs.safetensors

The inputs are the model's parameters, under "model/", and a batch, "ids" and "targets". Results are "loss", "logits", the
stream behind each block, "blocks.0", and the gradients, "grad/" and the parameter's name; in f64, "f64/" stands before
all of them.
"""

import sys

import tensor_file
import torch
import torch.nn.functional as F


class Gpt:
    """The layers as nanoGPT has them. Attune keeps a linear map as [in, out]; here it is [out, in]."""

    def __init__(self, arrays, heads, dtype):
        self.heads = heads
        self.parameters = {}
        for name, array in arrays.items():
            tensor = torch.from_numpy(array).to(dtype)
            if self.is_linear(name):
                tensor = tensor.T.contiguous()
            self.parameters[name] = tensor.clone().requires_grad_()

    @staticmethod
    def is_linear(name):
        return name.startswith("blocks.") and name.endswith((".qkv.weight", ".out.weight", ".up.weight", ".down.weight"))

    def linear(self, x, name):
        return F.linear(x, self.parameters[name + ".weight"], self.parameters.get(name + ".bias"))

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.parameters[name + ".weight"], self.parameters[name + ".bias"])

    def attention(self, x, name):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.linear(x, name + ".qkv").split(width, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.linear(y.transpose(1, 2).reshape(batch, length, width), name + ".out")

    def mlp(self, x, name):
        return self.linear(F.gelu(self.linear(x, name + ".up")), name + ".down")

    def __call__(self, ids, targets):
        results = {}
        x = self.parameters["token.weight"][ids] + self.parameters["position.weight"][: ids.shape[1]]
        block = 0
        while f"blocks.{block}.norm1.weight" in self.parameters:
            name = f"blocks.{block}"
            x = x + self.attention(self.norm(x, name + ".norm1"), name + ".attention")
            x = x + self.mlp(self.norm(x, name + ".norm2"), name + ".mlp")
            results[name] = x
            block += 1
        logits = F.linear(self.norm(x, "norm"), self.parameters["token.weight"])
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        results.update(loss=loss, logits=logits)
        for parameter, tensor in self.parameters.items():
            results["grad/" + parameter] = tensor.grad.T if self.is_linear(parameter) else tensor.grad
        return results


def main(inputs_path, heads, outputs_path):
    arrays = tensor_file.read(inputs_path)
    ids, targets = (torch.from_numpy(arrays.pop(name)).long() for name in ("ids", "targets"))
    model = {name.removeprefix("model/"): array for name, array in arrays.items()}
    results = {}
    for dtype, start in ((torch.float32, ""), (torch.float64, "f64/")):
        for name, tensor in Gpt(model, int(heads), dtype)(ids, targets).items():
            results[start + name] = tensor.detach().contiguous().numpy()
    tensor_file.write(outputs_path, results)
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
