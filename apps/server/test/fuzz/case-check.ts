// Sends one request and checks the answer: by itself, against the oracle and against the copy.
import type { Case } from './cases.ts'
import { brokenGuard, type Change, writeChange } from './changes.ts'
import { differenceFromCopy, differenceFromSql, differenceOfChange, problemWith } from './checks.ts'
import type { Who } from './markers.ts'
import type { Oracle, SqlResult } from './oracle.ts'
import type { Read } from './query.ts'
import type { Answer, Sender } from './send.ts'
import { describe, type Wire } from './wire.ts'
import type { Place, Project, World } from './world.ts'

export type Property = 'answer' | 'sql' | 'copy' | 'statement'

export interface Finding {
  property: Property
  problem: string
  answer: string
  /** The request, if it differs from that of the case. */
  request?: string
}

/** The answers that the finding is based on. */
export interface Evidence {
  answer?: Answer
  expected?: SqlResult
  copy?: Answer
}

export type CaseCheck = (one: Case, evidence?: Evidence) => Promise<Finding | undefined>

/** The callers whose answers are compared, and the copy for each. */
const copyFor: Partial<Record<Who, Place>> = { anon: 'for-anon', user1: 'for-user1' }

export function createCaseCheck(world: World, sender: Sender, oracle: Oracle): CaseCheck {
  const { projects } = world

  /** The answer of a failed HEAD has no error code. A GET with the same count fails for the same reason. */
  async function reasonOf(wire: Wire, project: Project) {
    const counting = { ...wire, method: 'GET', headers: { ...wire.headers, prefer: 'count=exact' } }
    const answer = await sender.send(project, counting)
    const problem = answer.status < 500 ? 'an unexpected 5xx of a HEAD' : problemWith(counting, answer)
    return finding('answer', problem, answer)
  }

  async function againstSql(read: Read, answer: Answer, evidence: Evidence) {
    evidence.expected = await oracle.ask(read)
    return finding('sql', differenceFromSql(read, answer, evidence.expected), answer)
  }

  /** The oracle runs first, because its row count determines the violated guard. */
  async function ofChange(change: Change, evidence: Evidence) {
    const expected = await oracle.askChange(change)
    const wire = writeChange(change, 'total' in expected ? brokenGuard(change, expected.total) : undefined)
    const answer = await sender.send(projects.left, wire)
    Object.assign(evidence, { expected, answer })
    const found =
      finding('answer', problemWith(wire, answer), answer) ??
      finding('sql', differenceOfChange(change, answer, expected), answer)
    return found && { ...found, request: describe(wire) }
  }

  async function againstCopy(one: Case, place: Place, answer: Answer, evidence: Evidence) {
    evidence.copy = await sender.send(projects[place], one.wire)
    const problem = differenceFromCopy(
      one,
      withoutProject(projects.left.id, answer),
      withoutProject(projects[place].id, evidence.copy),
    )
    return finding('copy', problem, answer)
  }

  return async (one, evidence = {}) => {
    const { wire, read, change } = one
    const isRead = read !== undefined || wire.method === 'GET' || wire.method === 'HEAD'
    const copy = isRead ? copyFor[wire.who] : undefined
    try {
      if (change) return await ofChange(change, evidence)
      const project = projects[isRead ? 'left' : 'scratch']
      const answer = await sender.send(project, wire)
      evidence.answer = answer
      if (wire.method === 'HEAD' && answer.status >= 500) return await reasonOf(wire, project)
      return (
        finding('answer', problemWith(wire, answer), answer) ??
        (read && (await againstSql(read, answer, evidence))) ??
        (copy && (await againstCopy(one, copy, answer, evidence)))
      )
    } catch (error) {
      return { property: 'answer', problem: 'there is no answer', answer: String(error) }
    }
  }
}

const finding = (property: Property, problem: string | undefined, answer: Answer): Finding | undefined =>
  problem === undefined ? undefined : { property, problem, answer: shown(answer) }

/** Answers may contain the project id, which differs between copies. */
const withoutProject = (id: string, answer: Answer): Answer => ({
  ...answer,
  text: answer.text.replaceAll(id, '<project>'),
})

const shown = ({ status, headers, text }: Answer) =>
  `${status} content-range: ${headers['content-range'] ?? '-'}\n${text.slice(0, 1500)}`
