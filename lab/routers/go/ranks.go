package main

import (
	"container/list"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// blockBytes is the part of a prompt that a prefix cache keeps or drops as one: a block of 16 tokens of 4 characters.
const blockBytes = 64

// bytesPerToken turns a prompt's length into tokens.
const bytesPerToken = 4

// filler gives a chunk the size of one of vLLM's.
const filler = `"object":"text_completion","model":"measured/model","choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null`

// pace is a rank's step: base, a part for every running request, and one for every new block that its cache does not have.
type pace struct{ base, each, block time.Duration }

// rank is one engine behind one port: it gives every running request a token a step.
type rank struct {
	pace    pace
	running []*answer
	cache   *cache
	missing int // blocks of new prompts, which the next step computes

	mutex           sync.Mutex
	wake            chan struct{}
	accepted        int64
	chunks          int64
	tokens          int64
	promptBlocks    int64
	promptBlocksHit int64
}

// answer is one request in a rank.
type answer struct {
	asked  int
	done   int
	prompt int // tokens
	writer http.ResponseWriter
	ended  chan struct{}
	gone   <-chan struct{}
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// request has its keys in the order in which OpenAI's client writes them.
type request struct {
	Messages  []message `json:"messages"`
	Model     string    `json:"model"`
	MaxTokens int       `json:"max_tokens"`
	Stream    bool      `json:"stream"`
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
	one := &answer{asked: body.MaxTokens, writer: w, ended: make(chan struct{}), gone: asked.Context().Done()}
	var prompt strings.Builder
	for _, part := range body.Messages {
		_, _ = prompt.WriteString(part.Content)
	}
	one.prompt = prompt.Len() / bytesPerToken
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	r.mutex.Lock()
	hit, all := r.cache.take(prompt.String())
	r.missing += all - hit
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
		number, missing := len(r.running), r.missing
		r.missing = 0
		r.mutex.Unlock()
		if number == 0 {
			<-r.wake
			continue
		}
		time.Sleep(r.pace.base + time.Duration(number)*r.pace.each + time.Duration(missing)*r.pace.block)
		r.mutex.Lock()
		batch = append(batch[:0], r.running...)
		r.mutex.Unlock()
		var chunks, tokens int64
		left := batch[:0:len(batch)]
		for _, one := range batch {
			select {
			case <-one.gone:
				close(one.ended)
				continue
			default:
			}
			one.done++
			tokens++
			chunks++
			fmt.Fprintf(one.writer, "data: {\"t\":%d,%s}\n\n", time.Now().UnixNano(), filler)
			if one.done == one.asked {
				fmt.Fprint(one.writer, "data: [DONE]\n\n")
			}
			one.writer.(http.Flusher).Flush()
			if one.done == one.asked {
				close(one.ended)
				continue
			}
			left = append(left, one)
		}
		r.mutex.Lock()
		// Those that came during the step follow the ones of the batch.
		r.running = append(append([]*answer(nil), left...), r.running[len(batch):]...)
		r.chunks += chunks
		r.tokens += tokens
		r.mutex.Unlock()
	}
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
	block := flags.Duration("block", 0, "time that a block of a new prompt adds to a step, unless the cache has it")
	blocks := flags.Int("blocks", 4096, "blocks of a rank's prefix cache")
	control := flags.String("control", "127.0.0.1:7999", "address of the counters")
	_ = flags.Parse(arguments)

	var all []*rank
	for pod := *first; pod < *first+*pods; pod++ {
		address := podAddress(pod)
		for number := 0; number < *ranks; number++ {
			one := newRank(pace{base: *step, each: *each, block: *block}, *blocks)
			all = append(all, one)
			mux := http.NewServeMux()
			mux.HandleFunc("POST /v1/chat/completions", one.complete)
			mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
			listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(*port+number)))
			if err != nil {
				return err
			}
			go func() { _ = http.Serve(listener, mux) }()
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
			one.accepted, one.chunks, one.tokens, one.promptBlocks, one.promptBlocksHit = 0, 0, 0, 0, 0
			one.mutex.Unlock()
		}
	})
	mux.HandleFunc("GET /told", func(w http.ResponseWriter, _ *http.Request) {
		sum := told{CPUSeconds: cpuSeconds()}
		for _, one := range ranks {
			one.mutex.Lock()
			sum.Accepted += one.accepted
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
