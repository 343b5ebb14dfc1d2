# shared.sh - sourced before begin.sh by tests that need the models in ../shared: $nano,
# $text; skips where they are absent.
shared=$(cd "$(dirname "$0")/../../../shared" 2>/dev/null && pwd) || shared=
if [ ! -f "$shared/models/gpt2-nano/model.safetensors" ]; then
    echo "skipped: no models in ../shared"
    exit 77
fi
nano=$shared/models/gpt2-nano
text=$shared/texts/alice29.txt
