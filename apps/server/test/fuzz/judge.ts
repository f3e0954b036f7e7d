// Sends one request and says what is wrong with what comes back: in itself, beside the truth, beside its twin.
import type { Case } from './cases.ts'
import { brokenGuard, type Change, writeChange } from './changes.ts'
import { complaintAbout, complaintAboutChange, complaintAboutTruth, complaintAboutTwins } from './checks.ts'
import type { Who } from './markers.ts'
import type { Oracle, Truth } from './oracle.ts'
import type { Read } from './query.ts'
import type { Answer, Sender } from './send.ts'
import { describe, type Wire } from './wire.ts'
import type { Place, Project, World } from './world.ts'

export type Property = 'answer' | 'truth' | 'twins' | 'statement'

export interface Verdict {
  property: Property
  complaint: string
  answer: string
  /** Where it is not the one of the case. */
  request?: string
}

/** What was looked at on the way to the verdict. */
export interface Evidence {
  answer?: Answer
  truth?: Truth
  twin?: Answer
}

export type Judge = (one: Case, evidence?: Evidence) => Promise<Verdict | undefined>

/** Whoever is compared, and with what. */
const twinOf: Partial<Record<Who, Place>> = { anon: 'for-anon', user1: 'for-user1' }

export function createJudge(world: World, sender: Sender, oracle: Oracle): Judge {
  const { projects } = world

  /** A HEAD that fails has no code to judge by; a GET that counts as well fails for the same reason. */
  async function reasonOf(wire: Wire, project: Project) {
    const counting = { ...wire, method: 'GET', headers: { ...wire.headers, prefer: 'count=exact' } }
    const told = await sender.send(project, counting)
    const complaint = told.status < 500 ? 'an unexpected 5xx of a HEAD' : complaintAbout(counting, told)
    return verdict('answer', complaint, told)
  }

  async function besideTruth(read: Read, answer: Answer, evidence: Evidence) {
    evidence.truth = await oracle.ask(read)
    return verdict('truth', complaintAboutTruth(read, answer, evidence.truth), answer)
  }

  /** The truth comes first: it tells which guard would be broken. */
  async function ofChange(change: Change, evidence: Evidence) {
    const truth = await oracle.askChange(change)
    const wire = writeChange(change, 'total' in truth ? brokenGuard(change, truth.total) : undefined)
    const answer = await sender.send(projects.left, wire)
    Object.assign(evidence, { truth, answer })
    const found =
      verdict('answer', complaintAbout(wire, answer), answer) ??
      verdict('truth', complaintAboutChange(change, answer, truth), answer)
    return found && { ...found, request: describe(wire) }
  }

  async function besideTwin(one: Case, place: Place, answer: Answer, evidence: Evidence) {
    evidence.twin = await sender.send(projects[place], one.wire)
    const complaint = complaintAboutTwins(
      one,
      withoutProject(projects.left.id, answer),
      withoutProject(projects[place].id, evidence.twin),
    )
    return verdict('twins', complaint, answer)
  }

  return async (one, evidence = {}) => {
    const { wire, read, change } = one
    const isRead = read !== undefined || wire.method === 'GET' || wire.method === 'HEAD'
    const twin = isRead ? twinOf[wire.who] : undefined
    try {
      if (change) return await ofChange(change, evidence)
      const project = projects[isRead ? 'left' : 'scratch']
      const answer = await sender.send(project, wire)
      evidence.answer = answer
      if (wire.method === 'HEAD' && answer.status >= 500) return await reasonOf(wire, project)
      return (
        verdict('answer', complaintAbout(wire, answer), answer) ??
        (read && (await besideTruth(read, answer, evidence))) ??
        (twin && (await besideTwin(one, twin, answer, evidence)))
      )
    } catch (error) {
      return { property: 'answer', complaint: 'there is no answer', answer: String(error) }
    }
  }
}

const verdict = (property: Property, complaint: string | undefined, answer: Answer): Verdict | undefined =>
  complaint === undefined ? undefined : { property, complaint, answer: shown(answer) }

/** The address of a project may be part of its answers. */
const withoutProject = (id: string, answer: Answer): Answer => ({
  ...answer,
  text: answer.text.replaceAll(id, '<project>'),
})

const shown = ({ status, headers, text }: Answer) =>
  `${status} content-range: ${headers['content-range'] ?? '-'}\n${text.slice(0, 1500)}`
