# nano.sh - sourced before begin.sh by tests that read a model: $nano and its text, $bert, a
# small BERT, $part, a GPT-2 that holds two layers only, and $data, answers and fixtures.
data=$(cd "$(dirname "$0")/../data" && pwd) || exit 1
nano=$(cd "$data/../../data/gpt2-nano" && pwd) || exit 1
text=$nano/../text/lighthouse.txt
bert=$data/models/bert-nano
part=$data/models/gpt2-part
