package main

import (
	"container/list"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// blockBytes is the part of a prompt that a prefix cache keeps or drops as one: a block of 16 tokens of 4 characters.
const blockBytes = 64

// bytesPerToken turns a prompt's length into tokens.
const bytesPerToken = 4

// filler gives a chunk the size of one of vLLM's.
const filler = `"object":"text_completion","model":"measured/model","choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null`

// pace is a rank's step: base, and a part for every running request.
type pace struct{ base, each time.Duration }

// rank is one engine behind one port: it gives every running request a token a step.
type rank struct {
	pace    pace
	running []*answer
	cache   *cache

	mutex           sync.Mutex
	wake            chan struct{}
	accepted        int64
	finished        int64
	chunks          int64
	tokens          int64
	promptBlocks    int64
	promptBlocksHit int64
}

// answer is one request in a rank.
type answer struct {
	stream bool
	asked  int
	done   int
	prompt int // tokens
	writer http.ResponseWriter
	ended  chan struct{}
	gone   <-chan struct{}
}

type request struct {
	Prompt    string `json:"prompt"`
	MaxTokens int    `json:"max_tokens"`
	Stream    bool   `json:"stream"`
}

func newRank(pace pace, blocks int) *rank {
	one := &rank{pace: pace, cache: newCache(blocks), wake: make(chan struct{}, 1)}
	go one.run()
	return one
}

func (r *rank) complete(w http.ResponseWriter, asked *http.Request) {
	var body request
	if err := json.NewDecoder(asked.Body).Decode(&body); err != nil || body.MaxTokens < 1 {
		http.Error(w, `{"error":"bad request"}`, http.StatusBadRequest)
		return
	}
	one := &answer{stream: body.Stream, asked: body.MaxTokens, writer: w, ended: make(chan struct{}), gone: asked.Context().Done()}
	one.prompt = len(body.Prompt) / bytesPerToken
	if body.Stream {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	r.mutex.Lock()
	hit, all := r.cache.take(body.Prompt)
	r.promptBlocks += int64(all)
	r.promptBlocksHit += int64(hit)
	r.accepted++
	r.running = append(r.running, one)
	r.mutex.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
	<-one.ended
}

// run steps while requests are running, at the pace that they set; a late step is not caught up with.
func (r *rank) run() {
	var batch []*answer
	for {
		r.mutex.Lock()
		number := len(r.running)
		r.mutex.Unlock()
		if number == 0 {
			<-r.wake
			continue
		}
		time.Sleep(r.pace.base + time.Duration(number)*r.pace.each)
		r.mutex.Lock()
		batch = append(batch[:0], r.running...)
		r.mutex.Unlock()
		var chunks, tokens int64
		left := batch[:0:len(batch)]
		ended := 0
		for _, one := range batch {
			select {
			case <-one.gone:
				close(one.ended)
				ended++
				continue
			default:
			}
			one.done++
			tokens++
			if one.stream {
				chunks++
				fmt.Fprintf(one.writer, "data: {\"t\":%d,%s}\n\n", time.Now().UnixNano(), filler)
				if one.done == one.asked {
					fmt.Fprint(one.writer, "data: [DONE]\n\n")
				}
				one.writer.(http.Flusher).Flush()
			} else if one.done == one.asked {
				fmt.Fprintf(one.writer, "{\"t\":%d,%s,\"n\":%d}", time.Now().UnixNano(), filler, one.asked)
			}
			if one.done == one.asked {
				close(one.ended)
				ended++
				continue
			}
			left = append(left, one)
		}
		r.mutex.Lock()
		// Those that came during the step follow the ones of the batch.
		r.running = append(append([]*answer(nil), left...), r.running[len(batch):]...)
		r.chunks += chunks
		r.tokens += tokens
		r.finished += int64(ended)
		r.mutex.Unlock()
	}
}

// tokenize gives a prompt a token for every four bytes, the same for the same text.
func tokenize(w http.ResponseWriter, asked *http.Request) {
	var body request
	if err := json.NewDecoder(asked.Body).Decode(&body); err != nil {
		http.Error(w, `{"error":"bad request"}`, http.StatusBadRequest)
		return
	}
	tokens := make([]uint32, 0, len(body.Prompt)/bytesPerToken)
	for end := bytesPerToken; end <= len(body.Prompt); end += bytesPerToken {
		tokens = append(tokens, binary.LittleEndian.Uint32([]byte(body.Prompt[end-bytesPerToken:end]))%150_000)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"count": len(tokens), "max_model_len": 262_144, "tokens": tokens, "token_strs": nil})
}

// held is the number of running requests and the tokens that they hold in the cache.
func (r *rank) held() (requests int, tokens int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, one := range r.running {
		tokens += one.prompt + one.done
	}
	return len(r.running), tokens
}

// metrics answers with the gauges that a picker reads, before a page of vLLM's other series.
func (r *rank) metrics(page []byte, capacity int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		requests, tokens := r.held()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		const labels = `{engine="0",model_name="measured/model"}`
		fmt.Fprintf(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running%s %d\n", labels, requests)
		fmt.Fprintf(w, "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting%s 0\n", labels)
		fmt.Fprintf(w, "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc%s %g\n", labels, float64(tokens)/float64(capacity))
		_, _ = w.Write(page)
	}
}

// cache keeps the most recently used blocks of prompts, each known by all the text before its end.
type cache struct {
	most   int
	order  *list.List
	blocks map[uint64]*list.Element
}

func newCache(most int) *cache {
	return &cache{most: most, order: list.New(), blocks: map[uint64]*list.Element{}}
}

// take returns how many leading blocks of a prompt were there and how many it has, and keeps them all.
func (c *cache) take(prompt string) (hit, all int) {
	chain := fnv.New64a()
	missed := false
	for end := blockBytes; end <= len(prompt); end += blockBytes {
		_, _ = chain.Write([]byte(prompt[end-blockBytes : end]))
		key := chain.Sum64()
		all++
		if found, ok := c.blocks[key]; ok {
			c.order.MoveToFront(found)
			if !missed {
				hit++
			}
			continue
		}
		missed = true
		c.blocks[key] = c.order.PushFront(key)
		if c.order.Len() > c.most {
			delete(c.blocks, c.order.Remove(c.order.Back()).(uint64))
		}
	}
	return hit, all
}

// told is what the control port says: sums since the last reset, and the balance sampled meanwhile.
type told struct {
	CPUSeconds        float64 `json:"cpu_seconds"`
	Accepted          int64   `json:"accepted"`
	Finished          int64   `json:"finished"`
	Chunks            int64   `json:"chunks"`
	Tokens            int64   `json:"tokens"`
	PromptBlocks      int64   `json:"prompt_blocks"`
	PromptBlocksHit   int64   `json:"prompt_blocks_hit"`
	Samples           int     `json:"samples"`
	RequestsMaxByMean float64 `json:"requests_max_by_mean"`
	TokensMaxByMean   float64 `json:"tokens_max_by_mean"`
	RequestsMean      float64 `json:"requests_mean"`
	Running           int     `json:"running"`
}

// balance samples how unevenly the ranks are loaded.
type balance struct {
	mutex               sync.Mutex
	samples             int
	byRequests, byToken float64
	mean                float64
}

func (b *balance) sample(ranks []*rank) {
	var requests, tokens, mostRequests, mostTokens int
	for _, one := range ranks {
		r, t := one.held()
		requests += r
		tokens += t
		mostRequests = max(mostRequests, r)
		mostTokens = max(mostTokens, t)
	}
	if requests == 0 {
		return
	}
	number := float64(len(ranks))
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.samples++
	b.byRequests += float64(mostRequests) * number / float64(requests)
	b.byToken += float64(mostTokens) * number / float64(tokens)
	b.mean += float64(requests) / number
}

func (b *balance) reset() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.samples, b.byRequests, b.byToken, b.mean = 0, 0, 0, 0
}

func serve(arguments []string) error {
	flags := flag.NewFlagSet("ranks", flag.ExitOnError)
	pods := flags.Int("pods", 8, "pods, each with an address of its own")
	first := flags.Int("first", 0, "number of the first pod")
	ranks := flags.Int("ranks", 8, "ranks of a pod, each with a port")
	port := flags.Int("port", 8000, "port of the first rank")
	step := flags.Duration("step", 50*time.Millisecond, "time of a step with no request")
	each := flags.Duration("each", 0, "time that each running request adds to a step")
	blocks := flags.Int("blocks", 4096, "blocks of a rank's prefix cache")
	capacity := flags.Int("capacity", 500_000, "tokens that a rank's cache holds")
	control := flags.String("control", "127.0.0.1:7999", "address of the counters")
	page := flags.String("metrics", "", "file with further series of /metrics")
	api := flags.String("api", "", "address at which to answer as Kubernetes' API would for these pods")
	_ = flags.Parse(arguments)

	var text []byte
	if *page != "" {
		var err error
		if text, err = os.ReadFile(*page); err != nil {
			return err
		}
	}
	var all []*rank
	var addresses []string
	for pod := *first; pod < *first+*pods; pod++ {
		address := podAddress(pod)
		addresses = append(addresses, address)
		for number := 0; number < *ranks; number++ {
			one := newRank(pace{base: *step, each: *each}, *blocks)
			all = append(all, one)
			mux := http.NewServeMux()
			mux.HandleFunc("POST /v1/completions", one.complete)
			mux.HandleFunc("GET /metrics", one.metrics(text, *capacity))
			mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, `{"object":"list","data":[{"id":"measured/model","object":"model"}]}`)
			})
			mux.HandleFunc("POST /tokenize", tokenize)
			mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
			listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(*port+number)))
			if err != nil {
				return err
			}
			go func() { _ = http.Serve(listener, mux) }()
		}
	}
	if *api != "" {
		ports := make([]int, *ranks)
		for number := range ports {
			ports[number] = *port + number
		}
		if err := answerAsAPI(*api, addresses, ports); err != nil {
			return err
		}
	}
	return answerControl(*control, all)
}

func podAddress(pod int) string { return fmt.Sprintf("127.0.1.%d", pod+1) }

func answerControl(address string, ranks []*rank) error {
	uneven := &balance{}
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			uneven.sample(ranks)
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reset", func(http.ResponseWriter, *http.Request) {
		uneven.reset()
		for _, one := range ranks {
			one.mutex.Lock()
			one.accepted, one.finished, one.chunks, one.tokens, one.promptBlocks, one.promptBlocksHit = 0, 0, 0, 0, 0, 0
			one.mutex.Unlock()
		}
	})
	mux.HandleFunc("POST /forget", func(http.ResponseWriter, *http.Request) {
		for _, one := range ranks {
			one.mutex.Lock()
			one.cache = newCache(one.cache.most)
			one.mutex.Unlock()
		}
	})
	mux.HandleFunc("GET /told", func(w http.ResponseWriter, _ *http.Request) {
		sum := told{CPUSeconds: cpuSeconds()}
		for _, one := range ranks {
			one.mutex.Lock()
			sum.Accepted += one.accepted
			sum.Finished += one.finished
			sum.Chunks += one.chunks
			sum.Tokens += one.tokens
			sum.PromptBlocks += one.promptBlocks
			sum.PromptBlocksHit += one.promptBlocksHit
			sum.Running += len(one.running)
			one.mutex.Unlock()
		}
		uneven.mutex.Lock()
		if sum.Samples = uneven.samples; sum.Samples > 0 {
			number := float64(sum.Samples)
			sum.RequestsMaxByMean = uneven.byRequests / number
			sum.TokensMaxByMean = uneven.byToken / number
			sum.RequestsMean = uneven.mean / number
		}
		uneven.mutex.Unlock()
		_ = json.NewEncoder(w).Encode(sum)
	})
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return http.Serve(listener, mux)
}
