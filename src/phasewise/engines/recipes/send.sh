send() { python3 -c '
import json, random, sys
model, tokens, answer = sys.argv[1:]
prompt = [random.randrange(100, 999) for _ in range(int(tokens))]
print(json.dumps({"model": model, "prompt": prompt, "ignore_eos": True,
                  "max_tokens": int(answer)}))' "$2" "$3" "$4" |
  curl -sS "$1/v1/completions" -H 'Content-Type: application/json' -d @- |
  head -c 200; echo; }
