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


def loop(model):
    """torch.compile of one module."""
    model.model.layers[1].self_attn = torch.compile(model.model.layers[1].self_attn)


def scaled(model):
    model.model.layers[1].self_attn.scaling *= 3


def seeing(model):
    model.model.layers[1].self_attn.is_causal = False


def biased(model):
    model.model.layers[1].self_attn.q_proj = torch.nn.Linear(24, 24)


def other_norm(model):
    model.model.layers[0].input_layernorm = torch.nn.LayerNorm(24, dtype=torch.float64)


def added(model):
    model.model.layers[0].probe = torch.nn.Linear(24, 24)


def turned(model):
    model.config.rope_parameters = {"rope_type": "default", "rope_theta": 7.0}


def offloaded(model):
    pytest.importorskip("accelerate").cpu_offload(model)


@pytest.mark.parametrize("change,want", [
    (loop, "self_attn is compiled alone"), (scaled, "self_attn has scaling = .* where its configuration says"), (seeing, "is_causal = False"),
    (biased, "q_proj has bias of shape"), (other_norm, "is a LayerNorm where its class has a LlamaRMSNorm"),
    (added, "probe is none of its class"), (turned, "rotary_emb turns positions by other angles"), (offloaded, "hooks of accelerate")])
def test_changed_by_hand(change, want):
    """What does not compute what its configuration and weights say is refused by name."""
    model = llama()
    change(model)
    with pytest.raises(ls.Refused, match=want) as caught:
        ls.Model(model)
    assert "\n" not in str(caught.value)


def test_not_changed():
    """Gradient checkpointing, data parallelism, frozen and resized models compute the same."""
    want = ours(llama())
    for change in (lambda m: m.gradient_checkpointing_enable(), lambda m: m.requires_grad_(False), lambda m: m.train(),
                   lambda m: m.resize_token_embeddings(40), lambda m: m.model.layers[0].register_full_backward_hook(lambda *a: None)):
        model = llama()
        change(model)
        assert ours(model) == want
    assert ours(torch.nn.DataParallel(llama())) == want
    model = llama().train()
    model.gradient_checkpointing_enable()
    assert torchs(model) == pytest.approx(want, rel=1e-5)


def test_all_modules_hooked():
    hook = torch.nn.modules.module.register_module_forward_hook(lambda *a: None)
    try:
        with pytest.raises(ls.Refused, match="forward hooks of all modules"):
            ls.Model(llama())
    finally:
        hook.remove()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_implementations(implementation):
    model = transformers.LlamaForCausalLM._from_config(llama().config, attn_implementation=implementation).double().eval()
    model.load_state_dict(llama().state_dict())
    assert ours(model) == ours(llama()) == pytest.approx(torchs(model), rel=1e-5)


def test_without_numbers():
    """meta, inference mode, autocast: a sentence, or the number without them."""
    meta = llama().to("meta")
    for call in (lambda: ls.Model(meta), lambda: torchs(meta), lambda: ls.jacobian(torch.tanh, torch.ones(2, device="meta"))):
        with pytest.raises(ls.DeviceError, match="no numbers"):
            call()
    with torch.inference_mode():
        made = llama()
        with pytest.raises(ls.Unusable, match="inference_mode"):
            ls.jacobian(torch.tanh, torch.ones(2))
    with pytest.raises(ls.Refused, match="inference_mode"):
        torchs(made)
    assert ours(made) == ours(llama())
    want = ls.jacobian(llama(torch.float32), "model.layers.1.self_attn", IDS).sigma()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ls.jacobian(llama(torch.float32), "model.layers.1.self_attn", IDS).sigma() == want
    with pytest.raises(ls.KindError, match="a torch model is needed"):
        ls.attention_modules(3)
