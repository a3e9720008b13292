// promrules evaluates rule groups over given series with Prometheus' own rules engine: JSON on stdin, JSON on stdout.
//
// What Prometheus refuses of a rule, series or expression is that answer's error.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
)

// version is that of the Prometheus module, set by the linker.
var version string

// start is when the first sample is: not zero, which the engine takes for "never".
var start = time.Unix(0, 0).Add(24 * 365 * time.Hour)

// question is one set of rules over one set of series.
type question struct {
	Rules  json.RawMessage `json:"rules"` // as in a rules file; JSON is YAML
	Series []struct {
		Series  string            `json:"series"` // name{label="value"} and values in the notation of Prometheus' tests
		Labels  map[string]string `json:"labels"` // or labels, __name__ among them, and a sample for each interval
		Samples []*float64        `json:"samples"`
	} `json:"series"`
	IntervalSeconds float64  `json:"interval_seconds"` // between samples, and between evaluations
	Minutes         float64  `json:"minutes"`
	Expressions     []string `json:"expressions"`
}

type answer struct {
	Error  string               `json:"error"`
	Alerts []*alert             `json:"alerts"`
	Values map[string][]*series `json:"values"`
}

// alert is one life of an alert; times in seconds since the first sample.
type alert struct {
	Alert    string            `json:"alert"`
	Labels   map[string]string `json:"labels"`
	Pending  float64           `json:"pending_at"`
	Firing   *float64          `json:"firing_at"`
	Resolved *float64          `json:"resolved_at"`
}

type series struct {
	Labels  map[string]string `json:"labels"`
	Samples [][2]float64      `json:"samples"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println(version)
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var questions []question
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&questions); err != nil {
		return fmt.Errorf("stdin: %w", err)
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples:               50_000_000,
		Timeout:                  time.Minute,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
	answers := make([]*answer, len(questions))
	for i, one := range questions {
		answers[i] = &answer{Alerts: []*alert{}, Values: map[string][]*series{}}
		if err := one.evaluate(engine, answers[i]); err != nil {
			answers[i].Error = err.Error()
		}
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func (q *question) evaluate(engine *promql.Engine, found *answer) error {
	interval := time.Duration(q.IntervalSeconds * float64(time.Second))
	if interval < time.Millisecond {
		return fmt.Errorf("interval_seconds: %v is less than a millisecond", q.IntervalSeconds)
	}
	kept := &memory{byName: map[string][]*promql.Series{}, byHash: map[uint64]*promql.Series{}}
	if err := q.keep(kept, interval); err != nil {
		return err
	}
	query := queries(engine, kept)
	groups, err := q.groups(query, kept, interval)
	if err != nil {
		return err
	}
	lives := map[string]*alert{}
	for at := time.Duration(0); at <= time.Duration(q.Minutes*float64(time.Minute)); at += interval {
		for _, group := range groups {
			group.Eval(context.Background(), start.Add(at))
			for _, rule := range group.Rules() {
				if err := rule.LastError(); err != nil {
					return fmt.Errorf("%s at %v: %w", rule.Name(), at, err)
				}
			}
		}
		found.follow(groups, lives, at.Seconds())
		for _, expression := range q.Expressions {
			vector, err := query(context.Background(), expression, start.Add(at))
			if err != nil {
				return fmt.Errorf("%s at %v: %w", expression, at, err)
			}
			found.read(expression, vector, at.Seconds())
		}
	}
	return nil
}

func (q *question) keep(kept *memory, interval time.Duration) error {
	for _, one := range q.Series {
		named, values, err := labels.FromMap(one.Labels), []parser.SequenceValue(nil), error(nil)
		if one.Series != "" {
			if named, values, err = parser.ParseSeriesDesc(one.Series); err != nil {
				return fmt.Errorf("series %q: %w", one.Series, err)
			}
		}
		for _, sample := range one.Samples {
			value := parser.SequenceValue{Omitted: sample == nil}
			if sample != nil {
				value.Value = *sample
			}
			values = append(values, value)
		}
		for step, value := range values {
			if value.Omitted {
				continue
			}
			if err := kept.add(named, start.Add(time.Duration(step)*interval).UnixMilli(), value.Value); err != nil {
				return fmt.Errorf("series %s: %w", named, err)
			}
		}
	}
	return nil
}

// groups has the rules as Prometheus' manager makes them from a file.
func (q *question) groups(query rules.QueryFunc, kept *memory, interval time.Duration) ([]*rules.Group, error) {
	parsed, errs := rulefmt.Parse(q.Rules)
	if len(errs) > 0 {
		return nil, fmt.Errorf("rules: %w", errs[0])
	}
	options := &rules.ManagerOptions{
		ExternalURL: &url.URL{},
		QueryFunc:   query,
		NotifyFunc:  func(context.Context, string, ...*rules.Alert) {},
		Appendable:  kept,
		Queryable:   kept,
		Logger:      log.NewNopLogger(),
		Metrics:     rules.NewGroupMetrics(nil),
	}
	groups := make([]*rules.Group, 0, len(parsed.Groups))
	for _, group := range parsed.Groups {
		made := make([]rules.Rule, 0, len(group.Rules))
		for _, rule := range group.Rules {
			expr, err := parser.ParseExpr(rule.Expr.Value)
			if err != nil {
				return nil, err
			}
			named, notes := labels.FromMap(rule.Labels), labels.FromMap(rule.Annotations)
			if rule.Record.Value != "" {
				made = append(made, rules.NewRecordingRule(rule.Record.Value, expr, named))
				continue
			}
			made = append(made, rules.NewAlertingRule(rule.Alert.Value, expr, time.Duration(rule.For),
				time.Duration(rule.KeepFiringFor), named, notes, labels.EmptyLabels(), "", true, options.Logger))
		}
		groups = append(groups, rules.NewGroup(rules.GroupOptions{
			Name: group.Name, Interval: interval, Limit: group.Limit, Rules: made, Opts: options,
		}))
	}
	return groups, nil
}

// follow writes down what became of every alert in this evaluation.
func (a *answer) follow(groups []*rules.Group, lives map[string]*alert, now float64) {
	active := map[string]bool{}
	for _, group := range groups {
		for _, rule := range group.AlertingRules() {
			for _, one := range rule.ActiveAlerts() {
				key := one.Labels.String()
				active[key] = true
				life := lives[key]
				if life == nil {
					life = &alert{Alert: rule.Name(), Labels: one.Labels.Map(), Pending: now}
					delete(life.Labels, model.AlertNameLabel)
					lives[key] = life
					a.Alerts = append(a.Alerts, life)
				}
				if life.Firing == nil && one.State == rules.StateFiring {
					life.Firing = &now
				}
			}
		}
	}
	for key, life := range lives {
		if !active[key] {
			life.Resolved = &now
			delete(lives, key)
		}
	}
}

// read adds the values of an expression at one moment; JSON cannot hold NaN and infinities, which are left out.
func (a *answer) read(expression string, vector promql.Vector, now float64) {
	for _, sample := range vector {
		if math.IsNaN(sample.F) || math.IsInf(sample.F, 0) {
			continue
		}
		var into *series
		for _, one := range a.Values[expression] {
			if labels.Equal(labels.FromMap(one.Labels), sample.Metric) {
				into = one
			}
		}
		if into == nil {
			into = &series{Labels: sample.Metric.Map()}
			a.Values[expression] = append(a.Values[expression], into)
		}
		into.Samples = append(into.Samples, [2]float64{now, sample.F})
	}
}
