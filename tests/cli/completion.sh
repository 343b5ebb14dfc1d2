# Completions: bash completes for real; every command and option is in all three files.
. "$(dirname "$0")/begin.sh"

mkdir made
run 0 help --completion made
empty out
empty err
commands=$("$bin" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "$(echo "$commands" | wc -l)" -ge 10 ] || fail "commands not found in --help"
for c in $commands; do
    for file in lipscope.bash _lipscope lipscope.fish; do
        grep -qw -e "$c" made/$file || fail "$file lacks $c"
    done
    for option in $("$bin" $c --help | sed -n 's/^  ..[, ] --\([a-z0-9-]*\).*/\1/p'); do
        sed -n "/^    $c)/,/esac ;;/p" made/lipscope.bash | grep -q -e "--$option\b" || fail "bash: $c lacks --$option"
        grep -q -e "--$option\[" made/_lipscope || fail "zsh lacks --$option"
        [ $option = help ] || grep -q -e "from $c' -l $option\b" made/lipscope.fish || fail "fish: $c lacks --$option"
    done
done

# bash itself: the words so far, and what it offers for the last
offers() { # WORD...
    bash -c '. made/lipscope.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lipscope; echo ${COMPREPLY[*]}' bash "$@"
}
[ "$(offers lipscope mea)" = measure ] || fail "mea: $(offers lipscope mea)"
[ "$(offers lipscope help att)" = attack ] || fail "help att: $(offers lipscope help att)"
[ "$(offers lipscope measure --len)" = "--lengths" ] || fail "--len: $(offers lipscope measure --len)"
[ "$(offers lipscope measure m --map nor)" = "norm-attention" ] || fail "--map nor: $(offers lipscope measure m --map nor)"
[ "$(offers lipscope bounds m --format '')" = "table tsv json" ] || fail "--format: $(offers lipscope bounds m --format '')"
echo >some-file
[ "$(offers lipscope report some)" = some-file ] || fail "files: $(offers lipscope report some)"
bash -n made/lipscope.bash || fail "bash does not read its file"
# the other shells read theirs where they are installed
! command -v zsh >/dev/null || zsh -n made/_lipscope || fail "zsh does not read its file"
! command -v fish >/dev/null || fish --no-execute made/lipscope.fish || fail "fish does not read its file"
# the other shells, where they are installed: fish completes for real, zsh loads its function
if command -v fish >/dev/null; then
    asks() { HOME=$PWD fish --no-config -c 'source made/lipscope.fish; complete -C "$argv[1]"' "$1" 2>/dev/null | cut -f1 | tr '\n' ' '; }
    [ "$(asks 'lipscope mea')" = "measure " ] || fail "fish, mea: $(asks 'lipscope mea')"
    [ "$(asks 'lipscope measure --len')" = "--lengths " ] || fail "fish, --len: $(asks 'lipscope measure --len')"
fi
if command -v zsh >/dev/null; then
    zsh -f -c 'fpath=($PWD/made $fpath); autoload -Uz compinit; compinit -u -D
        [ "$_comps[lipscope]" = _lipscope ] && autoload -Uz +X _lipscope && whence -f _lipscope' >loaded 2>&1 ||
        fail "zsh does not load its function: $(cat loaded)"
    grep -q measure loaded || fail "zsh: no measure in its function"
    # and completes on a terminal of its own: what it hands to compadd when Tab is pressed is in ./offered
    cat >tab.zsh <<'end'
zmodload zsh/zpty || exit 1
wait_for() { for ((i = 0; i < 200; i++)); do [[ -s $1 ]] && return; sleep 0.05; done }
zpty -b shell zsh -f -i
zpty -w shell 'fpath=($PWD/made $fpath); autoload -Uz compinit; compinit -u -D'
zpty -w shell 'compadd() { local -a fit; builtin compadd -A fit "$@"; print -rl -- $fit >>offered; builtin compadd "$@" }'
zpty -w shell 'echo yes >ready'
wait_for ready
zpty -n -w shell "$1"$'\t'
wait_for offered
sleep 0.2
zpty -d shell
end
    tab() { # LINE WANTED
        rm -f ready offered
        HOME=$PWD zsh -f tab.zsh "$1" >/dev/null 2>&1
        got=$(sort -u offered 2>/dev/null | grep -v '^$' | tr '\n' ' ')
        [ "$got" = "$2 " ] || fail "zsh, $1: '$got', not '$2'"
    }
    tab 'lipscope mea' measure
    tab 'lipscope help att' attack
    tab 'lipscope measure --len' --lengths
    tab 'lipscope measure m --map nor' norm-attention
    tab 'lipscope bounds m --format ' 'json table tsv'
    tab 'lipscope report some' some-file
fi

run 1 help --completion no/such/folder
has err "no/such/folder"
finish
