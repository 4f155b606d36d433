# The command of a hook: sh hook.sh PYTHON AGENT SECONDS STATUS
#
# Agents run a tool if its hook fails. So everything but a whole answer, with its end mark, ends with
# STATUS, which is 2 for a call: the agent then refuses it. No program `timeout`: macOS has none.
exec 3<&0
answer=$(
  "$1" -I -S "${0%/*}/client.py" "$2" <&3 3<&- 2>/dev/null &
  client=$!
  (
    # KILL, because a process that has just begun may lose another signal; and not a variable,
    # because the signal may come before it is set.
    trap 'kill -9 $!; exit' TERM
    sleep "$3" &
    wait $!
    kill -9 $client
  ) </dev/null >/dev/null 2>&1 3<&- &
  limit=$!
  wait $client
  ended=$?
  kill $limit 2>/dev/null
  exit $ended
) && case $answer in
*toolstile:end)
  printf %s "${answer%toolstile:end}"
  exit 0
  ;;
esac
echo "Toolstile's hook gave no whole answer, so the call did not run. Retry it once. If that fails," \
  "stop, and tell the user that the hook is broken." >&2
exit "$4"
