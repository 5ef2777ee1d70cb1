send() { python3 -c '
import json, random, sys, urllib.request as http
url, model, tokens, answer = sys.argv[1:]
prompt = [random.randrange(100, 9999) for _ in range(int(tokens))]
body = {"model": model, "prompt": prompt, "max_tokens": int(answer),
        "ignore_eos": True}
kind = {"Content-Type": "application/json"}
ask = http.Request(url + "/v1/completions", json.dumps(body).encode(), kind)
http.urlopen(ask).read()' "$@"; }
