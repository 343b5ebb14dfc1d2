"""Models that are not what their configuration says: adapters, quantised layers, replaced forwards; refused by name, or right."""
import numpy as np
import pytest

import lipscope as ls

torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def llama(dtype=torch.float64):
    torch.manual_seed(2)
    config = transformers.LlamaConfig(hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=40,
                                      num_hidden_layers=2, vocab_size=32, max_position_embeddings=64)
    return transformers.LlamaForCausalLM(config).to(dtype).eval()


def torchs(model, path="model.layers.1.self_attn"):
    """LAPACK on torch's Jacobian of the module as it is."""
    return np.linalg.norm(ls.jacobian(model, path, torch.tensor(IDS)).dense(), 2)


def ours(model):
    return ls.Model(model).jacobian(IDS, 1).sigma()


def adapted():
    peft = pytest.importorskip("peft")
    torch.manual_seed(3)
    model = peft.get_peft_model(llama(), peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    return model.eval().double()


def test_adapter():
    """Not merged: refused with what to do, and taken by ls.jacobian as it is; merged and unloaded: the adapter counts."""
    plain, model = torchs(llama()), adapted()
    inside = torchs(model, "base_model.model.model.layers.1.self_attn")
    assert abs(inside - plain) > 1e-3 * plain
    for given in (model, model.get_base_model()):
        with pytest.raises(ls.Refused, match=r"has an adapter \(.*\): pass model.merge_and_unload\(\)"):
            ls.Model(given)
    model.merge_adapter()
    with pytest.raises(ls.Refused, match="adapter"):
        ls.Model(model)
    model.unmerge_adapter()
    merged = model.merge_and_unload()
    # rotary angles are float32 in transformers
    assert ours(merged) == pytest.approx(torchs(merged), rel=1e-5) == pytest.approx(inside, rel=1e-5)


def test_quantised():
    """Layers of torch itself, and a weight that is a tensor of another kind."""
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.ao.quantization.quantize_dynamic(llama(torch.float32), {torch.nn.Linear}, torch.qint8)
    with pytest.raises(ls.Refused, match=r"module model.layers.0.self_attn.q_proj is quantised \(.*Linear\).*ls.jacobian"):
        ls.Model(model)

    class Packed(torch.Tensor):
        __module__ = "somewhere.else"

    model = llama()
    weight = model.model.layers[0].self_attn.q_proj.weight
    model.model.layers[0].self_attn.q_proj.weight = torch.nn.Parameter(weight.detach().as_subclass(Packed))
    with pytest.raises(ls.Refused, match="q_proj keeps its weight as a Packed"):
        ls.Model(model)
    with pytest.raises(ls.KindError, match="torch.int8"):
        model = llama()
        model.model.layers[0].self_attn.q_proj.weight = torch.nn.Parameter(weight.detach().to(torch.int8), requires_grad=False)
        ls.Model(model)


@pytest.mark.parametrize("package", ["bitsandbytes", "torchao", "optimum.quanto"])
def test_quantised_by(package):
    """The packages themselves, where they are installed."""
    module, model = pytest.importorskip(package), llama(torch.float32)
    attention = model.model.layers[0].self_attn
    if package == "bitsandbytes":
        attention.q_proj = module.nn.Linear8bitLt(24, 24, has_fp16_weights=False)
    elif package == "torchao":
        module.quantize_(model, module.quantization.Int8WeightOnlyConfig())
    else:
        module.quantize(model, weights=module.qint8)
    with pytest.raises(ls.Refused, match="is quantised|keeps its weight as|hooks"):
        ls.Model(model)


def test_replaced_forward():
    model = llama()
    model.model.layers[0].self_attn.forward = lambda *a, **k: None
    with pytest.raises(ls.Refused, match="has another forward than its class"):
        ls.Model(model)


def test_compiled():
    """torch.compile computes the same function."""
    model = llama()
    assert ours(torch.compile(model)) == ours(model)


def test_training_mode_and_hooks_stay():
    """What we look at is left as it was."""
    model = llama().train()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    ls.jacobian(model, "model.layers.0.self_attn", torch.tensor(IDS)).sigma()
    ls.measure(model, ids=IDS, lengths=[8], windows=1)
    assert model.training and all(m.training for m in model.modules())
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())
    assert all(torch.equal(p, before[name]) and p.grad is None for name, p in model.named_parameters())
