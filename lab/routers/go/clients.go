package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// replyWait is how long a client waits for the next bytes.
const replyWait = 120 * time.Second

// times counts durations in buckets that grow by 2 %, from a microsecond.
type times struct{ counts [1200]atomic.Int64 }

func (t *times) add(duration time.Duration) {
	bucket := int(math.Log(max(1, float64(duration)/1e3)) / math.Log(1.02))
	t.counts[min(bucket, len(t.counts)-1)].Add(1)
}

// at is the duration in microseconds below which that share lies.
func (t *times) at(share float64) float64 {
	var all, passed int64
	for index := range t.counts {
		all += t.counts[index].Load()
	}
	for index := range t.counts {
		if passed += t.counts[index].Load(); passed > int64(share*float64(all)) {
			return math.Pow(1.02, float64(index)+0.5)
		}
	}
	return 0
}

// failure is one kind of error that clients saw; times in seconds since 1970.
type failure struct {
	Count int     `json:"count"`
	First float64 `json:"first"`
	Last  float64 `json:"last"`
}

// seen is the clients' account of the measured seconds.
type seen struct {
	Seconds    float64             `json:"seconds"`
	CPUSeconds float64             `json:"cpu_seconds"`
	Requests   int64               `json:"requests"`
	Chunks     int64               `json:"chunks"`
	ChunkP50Us float64             `json:"chunk_p50_us"`
	ChunkP99Us float64             `json:"chunk_p99_us"`
	FirstP50Us float64             `json:"first_p50_us"`
	FirstP99Us float64             `json:"first_p99_us"`
	Failures   map[string]*failure `json:"failures"`
}

// clients is one run of requests.
type clients struct {
	targets []string
	// Lengths of answers in tokens, each with its share.
	lengths      []int
	shares       []float64
	promptBytes  int
	groups       int
	hot          float64
	prefixBytes  int
	turns        int
	think        float64
	measureAfter time.Time
	until        time.Time

	chunkTimes, firstTimes times
	requests, chunks       atomic.Int64
	mutex                  sync.Mutex
	failures               map[string]*failure
}

func load(arguments []string) error {
	flags := flag.NewFlagSet("clients", flag.ExitOnError)
	targets := flags.String("targets", "", "addresses, host:port, separated by commas; each connection goes to one of them at random")
	connections := flags.Int("connections", 64, "clients, each with one connection and one request at a time")
	seconds := flags.Float64("seconds", 5, "measured time")
	warm := flags.Float64("warm", 1, "time before")
	ramp := flags.Float64("ramp", 0.5, "time over which the clients start; part of the time before")
	lengths := flags.String("lengths", "16", "tokens of an answer, or several with shares: 16:0.8,256:0.2")
	promptBytes := flags.Int("prompt-bytes", 3000, "text of the user's message")
	groups := flags.Int("groups", 0, "conversations begin with one of so many system prompts")
	hot := flags.Float64("hot", 0, "share of the conversations with the first of these system prompts")
	prefixBytes := flags.Int("prefix-bytes", 0, "length of a system prompt")
	turns := flags.Int("turns", 1, "turns of a conversation, each with an answer of half a user's message")
	think := flags.Float64("think", 0, "seconds between two turns, on average; from none to twice as long")
	_ = flags.Parse(arguments)

	began := time.Now()
	run := &clients{
		targets: strings.Split(*targets, ","), promptBytes: *promptBytes, groups: *groups, hot: *hot, prefixBytes: *prefixBytes,
		turns: *turns, think: *think, measureAfter: began.Add(time.Duration(*warm * 1e9)), failures: map[string]*failure{},
	}
	run.until = run.measureAfter.Add(time.Duration(*seconds * 1e9))
	if err := run.parseLengths(*lengths); err != nil {
		return err
	}
	for number := 0; number < *connections; number++ {
		go func() {
			time.Sleep(time.Duration(*ramp * 1e9 * float64(number) / float64(*connections)))
			run.work(rand.New(rand.NewPCG(uint64(number), 29)))
		}()
	}
	time.Sleep(time.Until(run.measureAfter))
	before := cpuSeconds()
	time.Sleep(time.Until(run.until))
	said := run.account(cpuSeconds()-before, time.Since(run.measureAfter).Seconds())
	// Streams that are open at the end are not waited for: what follows belongs to no measurement.
	return json.NewEncoder(os.Stdout).Encode(said)
}

func (c *clients) parseLengths(text string) error {
	for _, part := range strings.Split(text, ",") {
		length, share, several := strings.Cut(part, ":")
		number, err := strconv.Atoi(length)
		if err != nil {
			return err
		}
		weight := 1.0
		if several {
			if weight, err = strconv.ParseFloat(share, 64); err != nil {
				return err
			}
		}
		c.lengths, c.shares = append(c.lengths, number), append(c.shares, weight)
	}
	return nil
}

func (c *clients) account(cpu, seconds float64) seen {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	said := seen{
		Seconds: seconds, CPUSeconds: cpu, Requests: c.requests.Load(), Chunks: c.chunks.Load(),
		ChunkP50Us: c.chunkTimes.at(0.5), ChunkP99Us: c.chunkTimes.at(0.99),
		FirstP50Us: c.firstTimes.at(0.5), FirstP99Us: c.firstTimes.at(0.99),
		Failures: c.failures,
	}
	return said
}

// connection is a client's, kept between requests.
type connection struct {
	net.Conn
	reader *bufio.Reader
}

func dial(address string) (*connection, error) {
	raw, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: raw, reader: bufio.NewReaderSize(raw, 4096)}, nil
}

func (c *clients) work(random *rand.Rand) {
	var kept *connection
	defer func() {
		if kept != nil {
			_ = kept.Close()
		}
	}()
	for time.Now().Before(c.until) {
		asked := request{Model: "measured/model", Stream: true}
		if c.groups > 0 {
			group := 0
			if random.Float64() >= c.hot {
				group = random.IntN(c.groups)
			}
			system := text(c.prefixBytes, rand.New(rand.NewPCG(uint64(group), 7)))
			asked.Messages = append(asked.Messages, message{Role: "system", Content: system})
		}
		for turn := 0; turn < c.turns && time.Now().Before(c.until); turn++ {
			if turn > 0 {
				time.Sleep(time.Duration(2 * c.think * random.Float64() * 1e9))
			}
			asked.Messages = append(asked.Messages, message{Role: "user", Content: text(c.promptBytes, random)})
			asked.MaxTokens = c.length(random)
			kind := ""
			if kept, kind = c.askKept(kept, asked, random); kind != "" {
				c.fail(kind)
				// A client that fails at once would otherwise do nothing else.
				time.Sleep(50 * time.Millisecond)
			}
			asked.Messages = append(asked.Messages, message{Role: "assistant", Content: text(c.promptBytes/2, random)})
		}
	}
}

func (c *clients) askKept(kept *connection, asked request, random *rand.Rand) (*connection, string) {
	if kept == nil {
		if kept = c.dialAny(random); kept == nil {
			return nil, "connect"
		}
	}
	keep, kind := c.ask(kept, asked, time.Now())
	if !keep {
		_ = kept.Close()
		kept = nil
	}
	return kept, kind
}

// dialAny connects to one of the targets at random, or to another if that one refuses: a Service soon leaves out what is not ready.
func (c *clients) dialAny(random *rand.Rand) *connection {
	first := random.IntN(len(c.targets))
	for number := range c.targets {
		if one, err := dial(c.targets[(first+number)%len(c.targets)]); err == nil {
			return one
		}
	}
	return nil
}

// ask sends one request and reads its answer. It returns whether the connection can be kept, and the kind of error.
func (c *clients) ask(used *connection, asked request, began time.Time) (bool, string) {
	body, _ := json.Marshal(asked)
	head := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: fleet\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	_ = used.SetDeadline(time.Now().Add(replyWait))
	if _, err := used.Write(append([]byte(head), body...)); err != nil {
		return false, "send"
	}
	response, err := http.ReadResponse(used.reader, nil)
	if err != nil {
		return false, "cut before an answer"
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, response.Body)
		return !response.Close, "status " + strconv.Itoa(response.StatusCode)
	}
	if err := c.read(used, response, asked, began); err != nil {
		return false, err.Error()
	}
	if time.Now().After(c.measureAfter) && time.Now().Before(c.until) {
		c.requests.Add(1)
	}
	return !response.Close, ""
}

var errCut = errors.New("cut within an answer")

func (c *clients) read(used *connection, response *http.Response, asked request, began time.Time) error {
	lines := bufio.NewReaderSize(response.Body, 2048)
	tokens := 0
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return errCut
		}
		if len(line) < 8 {
			continue
		}
		if bytes.HasPrefix(line, []byte("data: [DONE]")) {
			break
		}
		sent, _ := strconv.ParseInt(string(line[len(`data: {"t":`):bytes.IndexByte(line, ',')]), 10, 64)
		tokens++
		now := time.Now()
		if now.After(c.measureAfter) && now.Before(c.until) {
			c.chunks.Add(1)
			c.chunkTimes.add(time.Duration(now.UnixNano() - sent))
			if tokens == 1 {
				c.firstTimes.add(now.Sub(began))
			}
		}
		if tokens%16 == 0 {
			_ = used.SetDeadline(now.Add(replyWait))
		}
	}
	if tokens != asked.MaxTokens {
		return errors.New("tokens missing")
	}
	_, err := io.Copy(io.Discard, lines)
	return err
}

func (c *clients) length(random *rand.Rand) int {
	point := random.Float64()
	for index, share := range c.shares {
		if point -= share; point < 0 {
			return c.lengths[index]
		}
	}
	return c.lengths[len(c.lengths)-1]
}

// text is words of random letters.
func text(length int, random *rand.Rand) string {
	var words strings.Builder
	for written := 0; written < length; written += 8 {
		word := random.Uint64()
		for letter := 0; letter < min(7, length-written); letter++ {
			_ = words.WriteByte('a' + byte(word>>(8*letter))%26)
		}
		if length-written > 7 {
			_ = words.WriteByte(' ')
		}
	}
	return words.String()
}

func (c *clients) fail(kind string) {
	now := time.Now()
	if now.After(c.until) {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	at := float64(now.UnixNano()) / 1e9
	one := c.failures[kind]
	if one == nil {
		one = &failure{First: at}
		c.failures[kind] = one
	}
	one.Count++
	one.Last = at
}
