# Completion of reshard's command line for bash. Installed as share/bash-completion/completions/reshard; elsewhere:
#   source reshard.bash

_reshard() {
  local common='--report --output --quiet --verbose --allow-external --help'
  local planning='--source --target --transport --memory --device-memory --allow-extra --allow-missing --set --target-format'
  declare -A options=(
    [run]="$planning $common --threads --overwrite --resume --copy-side-files --check-replicas --verify"
    [plan]="$planning $common --tensor --rank --processes --check"
    [inspect]="$common"
    [verify]="$common"
    [compare]="$common --plan"
  )
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  COMPREPLY=()
  # "--transport=d" comes as three words where '=' parts words, as it does by default.
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  compopt -o filenames 2>/dev/null
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "${!options[*]} --help --version" -- "$current")
    return
  fi
  case $previous in
    --report)
      local forms='text json'
      [[ $command == plan ]] && forms+=' html'
      mapfile -t COMPREPLY < <(compgen -W "$forms" -- "$current") ;;
    --transport) mapfile -t COMPREPLY < <(compgen -W 'auto direct mpi nccl' -- "$current") ;;
    --target-format) mapfile -t COMPREPLY < <(compgen -W 'hdf5 safetensors' -- "$current") ;;
    --memory | --device-memory) mapfile -t COMPREPLY < <(compgen -W '256MiB 512MiB 1GiB 2GiB 4GiB' -- "$current") ;;
    --target) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    --source | --output | --plan) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    --set | --tensor | --rank | --processes | --threads) ;;
    *)
      if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${options[$command]}" -- "$current")
      else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
      fi ;;
  esac
}

complete -F _reshard reshard
