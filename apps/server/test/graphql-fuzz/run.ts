// Sends random documents over one random schema, and a broken copy of each, and reports failures. Every document depends
// only on the seed, the number of the schema and its own number.
import { isDeepStrictEqual } from 'node:util'
import { createRandom } from '../fuzz/random.ts'
import { broken } from './breaker.ts'
import { documentOf, type PageQuery, randomPage } from './document.ts'
import { openSqlOracle, pageSql, type SqlOracle } from './oracle.ts'
import {
  createFuzzProject,
  type FuzzCaller,
  type FuzzProject,
  type Place,
  type RowsByTable,
  rowsOverRest,
  type Sent,
  send,
} from './project.ts'
import { pageAnswer } from './reference.ts'
import { markHeader, type StatementCount } from './statement-count.ts'

/**
 * What a document violates: the form of answers, the answer of plain SQL or of the rows over REST, the number of statements,
 * or that queries change no rows.
 */
export type Property = 'answer' | 'sql' | 'rest' | 'statements' | 'unchanged'

export interface Failure {
  readonly property: Property
  readonly schema: number
  /** The number of the document. */
  readonly index: number
  readonly problem: string
  readonly request: string
  readonly answer: string
}

export interface Report {
  readonly failures: Failure[]
  /** Valid documents, and those of them whose answer has rows. */
  valid: number
  validWithRows: number
  broken: number
  /** Broken documents that are still valid, by chance. */
  brokenAnswered: number
  /** Broken documents by the number of their statements. */
  readonly brokenStatements: Record<string, number>
  readonly statuses: Record<string, number>
}

export const emptyReport = (): Report => ({
  failures: [],
  valid: 0,
  validWithRows: 0,
  broken: 0,
  brokenAnswered: 0,
  brokenStatements: {},
  statuses: {},
})

export interface RunOptions {
  readonly place: Place
  readonly count: StatementCount
  readonly seed: string
  /** The number of the schema. */
  readonly schema: number
  readonly documents: number
  readonly atOnce?: number
  /** Stops the run when the report has this number of failures. */
  readonly maxFailures?: number
}

export async function runSchema(options: RunOptions, report: Report): Promise<void> {
  const { place, count, seed, schema: number, documents, atOnce = 4, maxFailures = 10 } = options
  const project = await createFuzzProject(place, `fuzz ${number}`, createRandom(`${seed} ${number}`))
  const readAll = () => Promise.all(project.callers.map(caller => rowsOverRest(place, project, caller)))
  const rows = await readAll()
  const oracle = openSqlOracle(place.postgres, project.database)
  const check = createCheck({ place, count, project, rows, oracle, report, number, seed })
  let next = 0
  const worker = async () => {
    while (next < documents && report.failures.length < maxFailures) await check(next++)
  }
  try {
    await Promise.all(Array.from({ length: atOnce }, worker))
  } finally {
    await oracle.close()
  }
  const fail = (property: Property, problem: string) =>
    report.failures.push({ property, schema: number, index: -1, problem, request: '', answer: '' })
  if (!isDeepStrictEqual(await readAll(), rows)) fail('unchanged', 'the documents changed rows')
  for (const mark of count.left())
    fail('statements', `${count.take(mark)} statements after the answer to ${mark}`)
}

interface Checking {
  readonly place: Place
  readonly count: StatementCount
  readonly project: FuzzProject
  /** The rows that each caller sees over REST. */
  readonly rows: readonly RowsByTable[]
  readonly oracle: SqlOracle
  readonly report: Report
  readonly number: number
  readonly seed: string
}

function createCheck(checking: Checking): (index: number) => Promise<void> {
  const { place, count, project, rows, oracle, report, number, seed } = checking
  const { schema, callers } = project

  async function ask(
    mark: string,
    { headers }: FuzzCaller,
    body: object,
  ): Promise<Sent & { statements: number }> {
    const path = `/v1/graphql/${project.id}`
    const sent = await send(place.url, path, { ...headers, [markHeader]: mark }, body)
    report.statuses[sent.status] = (report.statuses[sent.status] ?? 0) + 1
    return { ...sent, statements: count.take(mark) }
  }

  return async index => {
    const random = createRandom(`${seed} ${number} ${index}`)
    const at = random.int(0, callers.length - 1)
    const caller = callers[at]!
    const visible = rows[at]!
    const page = randomPage(
      { schema, isAnon: caller.isAnon, rows: visible, random },
      random.pick(schema.tables).name,
      2,
    )
    const document = documentOf(page)
    const fail = (who: FuzzCaller, body: object, answer: string) => (property: Property, problem: string) =>
      report.failures.push({
        property,
        schema: number,
        index,
        problem,
        request: `${JSON.stringify(who.claims)} ${JSON.stringify(body)}`,
        answer,
      })

    const { status, text, statements } = await ask(`${number}-${index}-valid`, caller, document)
    report.valid++
    const expected = await oracle.answer(caller.claims, pageSql({ schema, isAnon: caller.isAnon }, page))
    const failValid = fail(caller, document, text)
    if (statements !== 1) failValid('statements', `${statements} statements instead of one`)
    const problem = validProblem(page, { status, text }, expected, visible)
    if (problem) failValid(...problem)
    if ((JSON.parse(expected) as { edges?: unknown[] }).edges?.length) report.validWithRows++

    const other = random.pick(callers)
    const body = broken(random, document)
    const reply = await ask(`${number}-${index}-broken`, other, body)
    report.broken++
    report.brokenStatements[reply.statements] = (report.brokenStatements[reply.statements] ?? 0) + 1
    const failBroken = fail(other, body, reply.text)
    if (reply.statements > 1) failBroken('statements', `${reply.statements} statements for a broken document`)
    const wrong = hasHalfSurrogate(body) ? refusalProblem(reply) : answerProblem(reply)
    if (wrong) failBroken('answer', wrong)
    else if ((JSON.parse(reply.text) as { data?: unknown }).data) report.brokenAnswered++
  }
}

/** Every answer has status 200 and data, or messages. */
export function answerProblem({ status, text }: Sent): string | undefined {
  if (status !== 200) return `status ${status}`
  const { data, errors } = JSON.parse(text) as { data?: unknown; errors?: { message?: unknown }[] }
  if (errors === undefined) return data === null || data === undefined ? 'neither data nor errors' : undefined
  const hasMessages =
    errors.length > 0 && errors.every(({ message }) => typeof message === 'string' && message)
  return hasMessages ? undefined : 'an error without a message'
}

/** A body with half of a surrogate pair is not valid text, so it is refused like a body that is not JSON. */
const hasHalfSurrogate = (body: object): boolean => /\\ud[89a-f]/.test(JSON.stringify(body))

function refusalProblem({ status, text }: Sent): string | undefined {
  if (status !== 400) return `status ${status} instead of 400`
  return (JSON.parse(text) as { message?: string }).message ? undefined : 'a refusal without a message'
}

/** `expected` is the JSON text of the oracle. Also the order of members must be that of the document. */
export function validProblem(
  page: PageQuery,
  sent: Sent,
  expected: string,
  visible: RowsByTable,
): [Property, string] | undefined {
  const problem = answerProblem(sent)
  if (problem) return ['answer', problem]
  const { data, errors } = JSON.parse(sent.text) as { data: Record<string, object>; errors?: unknown }
  if (errors) return ['answer', 'a valid document is refused']
  const given = data[`${page.table}Collection`]!
  if (JSON.stringify(given) !== JSON.stringify(JSON.parse(expected)))
    return ['sql', `plain SQL has another answer: ${JSON.stringify(JSON.parse(expected))}`]
  const reference = pageAnswer(visible, page, () => true)
  if (!isDeepStrictEqual(given, reference))
    return ['rest', `the rows of REST have another answer: ${JSON.stringify(reference)}`]
  return
}

export const printed = ({ property, schema, index, problem, request, answer }: Failure): string =>
  `[${property}] schema ${schema}, document ${index}: ${problem}\n${request}\n=> ${answer.slice(0, 3000)}`
