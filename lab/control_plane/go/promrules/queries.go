package main

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
)

// queries evaluates an expression at many moments and parses it once: a label's pattern with a class such as [^-] takes two
// milliseconds to parse, and a rule is evaluated some hundred times.
func queries(engine *promql.Engine, kept storage.Queryable) rules.QueryFunc {
	known := map[string]promql.Query{}
	return func(ctx context.Context, text string, at time.Time) (promql.Vector, error) {
		query := known[text]
		if query == nil {
			made, err := engine.NewInstantQuery(ctx, kept, nil, text, at)
			if err != nil {
				return nil, err
			}
			query = made
		}
		if moveTo(query.Statement().(*parser.EvalStmt), at) {
			known[text] = query
		}
		return rules.EngineQueryFunc(executed{query}, nil)(ctx, text, at)
	}
}

// moveTo makes the statement one of another moment, and says whether that can be done again after it is executed: the engine replaces
// a subquery by its result. Nothing else knows the moment, since this engine refuses the modifier @.
func moveTo(statement *parser.EvalStmt, at time.Time) bool {
	statement.Start, statement.End = at, at
	again := true
	parser.Inspect(statement.Expr, func(node parser.Node, _ []parser.Node) error {
		switch part := node.(type) {
		case *parser.VectorSelector:
			part.UnexpandedSeriesSet, part.Series = nil, nil // those of the moment before
		case *parser.SubqueryExpr:
			again = false
		}
		return nil
	})
	return again
}

// executed is an engine that has made its query already.
type executed struct{ query promql.Query }

func (e executed) NewInstantQuery(
	context.Context, storage.Queryable, promql.QueryOpts, string, time.Time,
) (promql.Query, error) {
	return e.query, nil
}

func (e executed) NewRangeQuery(
	context.Context, storage.Queryable, promql.QueryOpts, string, time.Time, time.Time, time.Duration,
) (promql.Query, error) {
	return e.query, nil
}
