// Sends the requests, several concurrently so that callers share connections of the server, and reports failures.

import { type CaseCheck, createCaseCheck, type Evidence, type Finding } from './case-check.ts'
import { type Case, makeCase } from './cases.ts'
import { errorIn } from './checks.ts'
import { openOracle } from './oracle.ts'
import { openSender } from './send.ts'
import { shrunk } from './shrink.ts'
import type { StatementWatch } from './statement-watch.ts'
import { describe } from './wire.ts'
import type { World } from './world.ts'

export interface Failure extends Finding {
  index: number
  /** The shrunk request that still fails. */
  request: string
}

export interface Report {
  requests: number
  failures: Failure[]
  statuses: Record<string, number>
  /** The number of errors by code. */
  codes: Record<string, number>
  /** Requests whose own SQL caused a 5xx. */
  tolerated: string[]
  /** The number of answers compared with the oracle, and of those with rows. */
  compared: number
  comparedWithRows: number
  /** The number of answers compared with a copy, and of those with rows. */
  copies: number
  copiesWithRows: number
}

export interface RunOptions {
  world: World
  watch: StatementWatch
  seed: string
  requests: number
  first?: number
  atOnce?: number
  /** Stops the run after this number of failures. */
  maxFailures?: number
}

export async function runFuzz(options: RunOptions): Promise<Report> {
  const { world, watch, seed, requests, first = 0, atOnce = 6, maxFailures = 25 } = options
  const sender = openSender(world.url)
  const oracle = openOracle(world.postgres, world.projects.left.database, world.claims)
  const check = createCaseCheck(world, sender, oracle)
  const report = emptyReport()
  let next = first
  const worker = async () => {
    while (next < first + requests && report.failures.length < maxFailures) {
      const index = next++
      const evidence: Evidence = {}
      const one = makeCase(seed, index, world.data)
      const found = await check(one, evidence)
      note(report, one, evidence)
      if (found) report.failures.push({ index, ...(await shortest(one, found, check)) })
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
  copies: 0,
  copiesWithRows: 0,
})

function note(report: Report, { wire }: Case, { answer, expected, copy }: Evidence): void {
  report.requests++
  if (!answer) return
  report.statuses[answer.status] = (report.statuses[answer.status] ?? 0) + 1
  const code = answer.status >= 400 ? errorIn(answer)?.code : undefined
  if (code) report.codes[code] = (report.codes[code] ?? 0) + 1
  if (answer.status >= 500) report.tolerated.push(`${code} ${describe(wire)}`)
  if (expected && 'body' in expected) {
    report.compared++
    if (expected.body !== '[]') report.comparedWithRows++
  }
  if (copy) {
    report.copies++
    if (copy.status < 300 && copy.text.length > 2) report.copiesWithRows++
  }
}

async function shortest(one: Case, found: Finding, check: CaseCheck): Promise<Finding & { request: string }> {
  const smallest = await shrunk(one, each => check(each).then(again => again?.property === found.property))
  const finding = (await check(smallest)) ?? { ...found, problem: `${found.problem} (only once)` }
  return { request: describe(smallest.wire), ...finding }
}

/** Finds the request of each problem by its mark. */
function statementFailures(
  watch: StatementWatch,
  made: number[],
  caseOf: (index: number) => Case,
): Failure[] {
  return watch.problems.splice(0).map(({ problem, mark, text }) => {
    const whole = new RegExp(`(?<![\\w.-])${RegExp.escape(mark)}(?![\\w.-])`)
    const index = made.find(each => whole.test(JSON.stringify(caseOf(each).wire))) ?? -1
    const request = index < 0 ? '(none of this run as it was made)' : describe(caseOf(index).wire)
    return {
      property: 'statement',
      index,
      problem: `${problem}: ${mark}`,
      request,
      answer: text.slice(0, 1500),
    }
  })
}

export const printed = ({ property, index, problem, request, answer }: Failure): string =>
  `[${property}] request ${index}: ${problem}\n${request}\n=> ${answer}`
