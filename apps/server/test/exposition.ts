// A strict parser of the text format of Prometheus, version 0.0.4.
import assert from 'node:assert/strict'

export interface Sample {
  name: string
  labels: Record<string, string>
  value: number
}
export interface Family {
  type: string
  help: string
  samples: Sample[]
}

const name = '[a-zA-Z_:][a-zA-Z0-9_:]*'
const help = new RegExp(`^# HELP (${name}) (.+)$`)
const type = new RegExp(`^# TYPE (${name}) (counter|gauge|histogram)$`)
const sample = new RegExp(`^(${name})(?:\\{(.*)\\})? (NaN|[+-]Inf|-?[0-9.]+(?:e[+-]?[0-9]+)?)$`)
const label = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^\\"\n]|\\[\\"n])*)"(?:,|$)/y

/** The families by name. Throws at anything that a scraper would refuse or misread. */
export function parseExposition(text: string): Map<string, Family> {
  assert.ok(text.endsWith('\n'), 'the last line ends with a newline')
  const families = new Map<string, Family>()
  const seen = new Set<string>()
  let current: { name: string; family: Family } | undefined
  let pendingHelp: { name: string; help: string } | undefined
  for (const line of text.slice(0, -1).split('\n')) {
    const isHelp = help.exec(line)
    const isType = type.exec(line)
    if (isHelp) {
      assert.equal(pendingHelp, undefined, line)
      pendingHelp = { name: isHelp[1]!, help: isHelp[2]! }
    } else if (isType) {
      assert.equal(pendingHelp?.name, isType[1], `HELP comes before ${line}`)
      assert.ok(!families.has(isType[1]!), `one block for ${line}`)
      const family = { type: isType[2]!, help: pendingHelp!.help, samples: [] }
      families.set(isType[1]!, family)
      current = { name: isType[1]!, family }
      pendingHelp = undefined
    } else {
      const parsed = parseSample(line)
      assert.ok(current && !pendingHelp, `the family is declared before ${line}`)
      const suffixes = current.family.type === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']
      assert.ok(suffixes.map(suffix => current!.name + suffix).includes(parsed.name), line)
      const key = `${parsed.name}${JSON.stringify(Object.entries(parsed.labels).sort())}`
      assert.ok(!seen.has(key), `the series is there once: ${line}`)
      seen.add(key)
      current.family.samples.push(parsed)
    }
  }
  for (const [family, { type, samples }] of families) {
    assert.ok(samples.length > 0, `${family} has samples`)
    if (type === 'counter') assert.match(family, /_total$/)
    if (type === 'histogram') checkHistogram(family, samples)
  }
  return families
}

function parseSample(line: string): Sample {
  const match = sample.exec(line)
  assert.ok(match, `a sample: ${line}`)
  const [, name, labelText, value] = match
  const labels: Record<string, string> = {}
  label.lastIndex = 0
  while (labelText !== undefined && label.lastIndex < labelText.length) {
    const found = label.exec(labelText)
    assert.ok(found, `labels: ${line}`)
    assert.ok(!(found[1]! in labels), `a label is there once: ${line}`)
    labels[found[1]!] = found[2]!.replace(/\\(.)/g, (_, char) => (char === 'n' ? '\n' : char))
  }
  return { name: name!, labels, value: Number(value!.replace('Inf', 'Infinity')) }
}

/** Buckets do not descend, and the last one has all observations. */
function checkHistogram(family: string, samples: readonly Sample[]): void {
  const keyOf = ({ labels: { le, ...labels } }: Sample) => JSON.stringify(labels)
  for (const [key, series] of Map.groupBy(samples, keyOf)) {
    const buckets = series.filter(({ name }) => name.endsWith('_bucket'))
    const bounds = buckets.map(({ labels }) => Number(labels['le']!.replace('Inf', 'Infinity')))
    assert.deepEqual(
      bounds,
      bounds.toSorted((a, b) => a - b),
      `${family} ${key}`,
    )
    const counts = buckets.map(({ value }) => value)
    assert.deepEqual(
      counts,
      counts.toSorted((a, b) => a - b),
      `${family} ${key}`,
    )
    assert.equal(bounds.at(-1), Number.POSITIVE_INFINITY)
    assert.equal(series.find(({ name }) => name.endsWith('_count'))?.value, counts.at(-1))
    assert.ok(series.some(({ name }) => name.endsWith('_sum')))
  }
}
