// Sends so many requests, several at a time so that callers mix on the server's connections, and reports.
import { type Case, makeCase } from './cases.ts'
import { errorIn } from './checks.ts'
import { createJudge, type Evidence, type Judge, type Verdict } from './judge.ts'
import { openOracle } from './oracle.ts'
import { openSender } from './send.ts'
import { shrunk } from './shrink.ts'
import type { StatementWatch } from './statement-watch.ts'
import { describe } from './wire.ts'
import type { World } from './world.ts'

export interface Failure extends Verdict {
  index: number
  /** As short as it still fails. */
  request: string
}

export interface Report {
  requests: number
  failures: Failure[]
  statuses: Record<string, number>
  /** Codes of the errors, by how often. */
  codes: Record<string, number>
  /** Requests whose own SQL made a 5xx. */
  tolerated: string[]
  /** Answers compared with the oracle's, and how many of them had rows. */
  compared: number
  comparedWithRows: number
  /** Answers compared with those of the database that differs in what is hidden. */
  twins: number
  twinsWithRows: number
}

export interface RunOptions {
  world: World
  watch: StatementWatch
  seed: string
  requests: number
  first?: number
  atOnce?: number
  /** Stops early: a server that is wrong everywhere need not be told a thousand times. */
  maxFailures?: number
}

export async function runFuzz(options: RunOptions): Promise<Report> {
  const { world, watch, seed, requests, first = 0, atOnce = 6, maxFailures = 25 } = options
  const sender = openSender(world.url)
  const oracle = openOracle(world.postgres, world.projects.left.database, world.claims)
  const judge = createJudge(world, sender, oracle)
  const report = emptyReport()
  let next = first
  const worker = async () => {
    while (next < first + requests && report.failures.length < maxFailures) {
      const index = next++
      const evidence: Evidence = {}
      const one = makeCase(seed, index, world.data)
      const found = await judge(one, evidence)
      note(report, one, evidence)
      if (found) report.failures.push({ index, ...(await shortest(one, found, judge)) })
    }
  }
  try {
    await Promise.all(Array.from({ length: atOnce }, worker))
  } finally {
    sender.close()
    await oracle.close()
  }
  const made = Array.from({ length: next - first }, (_, at) => first + at)
  report.failures.push(...statementFailures(watch, made, index => makeCase(seed, index, world.data)))
  return report
}

const emptyReport = (): Report => ({
  requests: 0,
  failures: [],
  statuses: {},
  codes: {},
  tolerated: [],
  compared: 0,
  comparedWithRows: 0,
  twins: 0,
  twinsWithRows: 0,
})

function note(report: Report, { wire }: Case, { answer, truth, twin }: Evidence): void {
  report.requests++
  if (!answer) return
  report.statuses[answer.status] = (report.statuses[answer.status] ?? 0) + 1
  const code = answer.status >= 400 ? errorIn(answer)?.code : undefined
  if (code) report.codes[code] = (report.codes[code] ?? 0) + 1
  if (answer.status >= 500) report.tolerated.push(`${code} ${describe(wire)}`)
  if (truth && 'body' in truth) {
    report.compared++
    if (truth.body !== '[]') report.comparedWithRows++
  }
  if (twin) {
    report.twins++
    if (twin.status < 300 && twin.text.length > 2) report.twinsWithRows++
  }
}

async function shortest(one: Case, found: Verdict, judge: Judge): Promise<Verdict & { request: string }> {
  const smallest = await shrunk(one, each => judge(each).then(again => again?.property === found.property))
  const verdict = (await judge(smallest)) ?? { ...found, complaint: `${found.complaint} (only once)` }
  return { request: describe(smallest.wire), ...verdict }
}

/** The request each complaint is about is found by the mark in it. */
function statementFailures(
  watch: StatementWatch,
  made: number[],
  caseOf: (index: number) => Case,
): Failure[] {
  return watch.complaints.splice(0).map(({ complaint, mark, text }) => {
    const whole = new RegExp(`(?<![\\w.-])${RegExp.escape(mark)}(?![\\w.-])`)
    const index = made.find(each => whole.test(JSON.stringify(caseOf(each).wire))) ?? -1
    const request = index < 0 ? '(none of this run as it was made)' : describe(caseOf(index).wire)
    return {
      property: 'statement',
      index,
      complaint: `${complaint}: ${mark}`,
      request,
      answer: text.slice(0, 1500),
    }
  })
}

export const printed = ({ property, index, complaint, request, answer }: Failure): string =>
  `[${property}] request ${index}: ${complaint}\n${request}\n=> ${answer}`
