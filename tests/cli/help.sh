# Help goes to standard output with exit 0, and says what it should, byte for byte.
. "$(dirname "$0")/begin.sh"

run 0 --version
is out "lipscope 0.1.0"
empty err

run 0 --help
empty err
is out "Usage: lipscope COMMAND [OPTION]...
How far can an attention layer stretch a small change of its input?

Commands:
  demo               a short tour, computed live
  measure MODEL      sigma of the layers on a text, and its growth with length
  layer FILE         sigma of one attention layer that is given as tensors
  bounds MODEL|FILE  every bound of the zoo beside the exact value
  attack MODEL|FILE  the worst input of a length and radius that a search finds
  perturb MODEL      what changes of finite size do, beside sigma and the bounds
  split MEASURE      moving, splitting and teleporting constants of a measure
  push MEASURE       the image of a measure under attention
  distance A B       Wasserstein distance between two measures, with its proof
  reproduce          every experiment and theorem of the paper, checked
  report RUN...      one self-contained HTML page from run files
  compare RUN RUN... how much larger is sigma in one run than in another
  merge RUN...       run files of one sweep, made in several places, become one
  info MODEL         what is in a checkpoint
  tokens MODEL FILE  text to token ids and back
  export MODEL       one layer of a model with its input, as a layer file
  check FILE         confirm a stored value independently of the solver
  selftest           does this build compute correctly on this machine?
  devices            where can be computed: the CPU, GPUs, and what is missing
  bench              speed of the products beside this machine's own sgemm

  -h, --help         show this help and exit
  -V, --version      show the version and exit

'lipscope help COMMAND' and 'lipscope COMMAND --help' tell about one command.
Results go to standard output, everything else to standard error.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 done but not converged,
4 done but a limit asked for is exceeded, 5 cannot be checked (\`check\`).

Example:
  \$ lipscope demo"
cp out program
run 0 -V
is out "lipscope 0.1.0"
run 0 help help
has out "Usage: lipscope help [COMMAND]"
for how in -h help; do
    run 0 $how
    cmp -s out program || fail "'lipscope $how' is not --help"
done

run 0 check --help
empty err
is out "Usage: lipscope check FILE [OPTION]...
Re-computes sigma and its residual from the direction stored in FILE, which
--save-direction of \`layer\` and \`measure\`, or \`attack\`, has written, by the
definition in plain double loops.  Directions of the maps heads and attention
need nothing else; those of norm-attention, residual, block and model need the
model (--model), told by its hash, and then the stored tokens are run through
it to see that X comes from them.  Exit 1 when the values differ by more than
1e-9 of sigma, 5 when the file cannot be checked.

The model:
      --model MODEL        the model that the file names, for maps behind
                           attention
      --part P             of a model that has both (clip, siglip, gemma3): its
                           text or vision part
      --seed N             seed of random models (default 1)

What is told:
      --certify [EPS]      prove an upper bound of at most 1 + EPS times lower
                           (default 1e-3)
      --certify-seconds S  refuse a certificate that is expected to take longer
                           (default 300)
      --certify-memory G   or needs more memory, in GiB (default 2)

Output:
      --format F           table, tsv or json (default table)
      --progress WHEN      show progress on standard error: auto (only on a
                           terminal, the default), always or never
  -q, --quiet              no progress and no remarks
  -h, --help               show this help and exit

Exit status: 0 done, 1 failed, 2 wrong usage, 3 done but not converged,
4 done but a limit asked for is exceeded, 5 cannot be checked (\`check\`).

Example:
  \$ lipscope layer layer.safetensors --save-direction top.safetensors
  \$ lipscope check top.safetensors
  \$ lipscope check block.safetensors --model gpt2/"

awk 'length > 80 { exit 1 }' program || fail "--help is wider than 80 columns"
for command in demo measure layer bounds attack devices perturb reproduce report compare merge info tokens export split push distance check selftest bench; do
    run 0 help $command
    cp out by_help
    run 0 $command --help
    cmp -s out by_help || fail "help $command and $command --help differ"
    run 0 $command -h
    cmp -s out by_help || fail "$command -h and $command --help differ"
    awk 'length > 80 { exit 1 }' by_help || fail "$command --help is wider than 80 columns"
    has by_help "Exit status:"
    has by_help "Example:"
done

# every option of the contract is named
run 0 layer --help
for option in num-heads kv-heads causal sliding scale dtype tol solver count upper \
    certify as-released save-direction max-sigma seed threads device max-products probability format; do
    has out " --$option"
done
run 0 bounds --help
for option in num-heads kv-heads causal sliding scale layers text length radius format; do
    has out " --$option"
done
run 0 measure --help
for option in text ids pixels tokenizer lengths windows layers heads map mask dtype tol seed \
    threads device count upper as-released save-direction max-sigma run format; do
    has out " --$option"
done
run 0 split --help
for option in layer model layers heads normalise radius step out search samples format; do
    has out " --$option"
done
run 0 push --help
for option in layer model layers heads normalise out samples format; do has out " --$option"; done
run 0 demo --help
for option in out quick; do has out " --$option"; done
run 0 tokens --help
for option in special decode; do has out " --$option"; done
run 0 export --help
for option in layer text length window out; do has out " --$option"; done
run 0 reproduce --help
for option in bert gpt2 text out run quick seed threads device spoil format progress quiet; do
    has out " --$option"
done
run 0 report --help
for option in out quiet; do has out " --$option"; done
run 0 bench --help
for option in lengths dtype mask block batch threads device repeats format; do has out " --$option"; done

# help wins over operands that are missing, and over what follows it
run 0 layer --help --foo
finish
