// What waits in memory to be written: lines and answers of each project, with bounds. The log says how many were dropped.
import type { Answered } from '#src/kernel/http/observation.ts'
import type { LogItem, LogLine } from './line.ts'

export interface WaitingLimits {
  /** Lines of a project. */
  linesPerSecond: number
  lineBurst: number
  lineBytes: number
  /** Answers of one project, and of all together. */
  answers: number
  allAnswers: number
}

export const usualLimits: WaitingLimits = {
  linesPerSecond: 200,
  lineBurst: 2000,
  lineBytes: 2 * 1024 * 1024,
  answers: 25_000,
  allAnswers: 100_000,
}

interface Project {
  lines: LogLine[]
  lineBytes: number
  droppedLines: number
  /** Lines that may be added now. */
  allowance: number
  refilledAt: number
  answers: Answered[]
  droppedAnswers: number
}

export interface Batch {
  readonly lines: readonly LogLine[]
  readonly answers: readonly Answered[]
  readonly droppedAnswers: number
}

export interface Waiting {
  /** The line is made only if there is room for it. */
  addLine(projectId: string, makeLine: () => LogLine): void
  addAnswer(projectId: string, answer: Answered): void
  /** Projects, of which some may have nothing to write. */
  projects(): string[]
  /** Undefined if there is nothing to write. */
  take(projectId: string): Batch | undefined
  /** Returns what could not be written. It comes before what has been added since, as far as there is room. */
  putBack(projectId: string, batch: Batch): void
}

export function createWaiting(limits: WaitingLimits = usualLimits): Waiting {
  const projects = new Map<string, Project>()
  let allAnswers = 0

  function projectOf(id: string): Project {
    const known = projects.get(id)
    if (known) return known
    const created: Project = {
      lines: [],
      lineBytes: 0,
      droppedLines: 0,
      allowance: limits.lineBurst,
      refilledAt: performance.now(),
      answers: [],
      droppedAnswers: 0,
    }
    projects.set(id, created)
    return created
  }

  function isLineAllowed(project: Project): boolean {
    const now = performance.now()
    const refill = ((now - project.refilledAt) / 1000) * limits.linesPerSecond
    project.allowance = Math.min(limits.lineBurst, project.allowance + refill)
    project.refilledAt = now
    if (project.allowance < 1 || project.lineBytes > limits.lineBytes) return false
    project.allowance--
    return true
  }

  return {
    addLine(projectId, makeLine) {
      const project = projectOf(projectId)
      if (!isLineAllowed(project)) {
        project.droppedLines++
        return
      }
      const line = makeLine()
      project.lineBytes += line.message.length
      project.lines.push(line)
    },

    addAnswer(projectId, answer) {
      const project = projectOf(projectId)
      if (project.answers.length >= limits.answers || allAnswers >= limits.allAnswers) {
        project.droppedAnswers++
        return
      }
      allAnswers++
      project.answers.push(answer)
    },

    projects: () => [...projects.keys()],

    take(projectId) {
      const project = projects.get(projectId)
      if (!project) return
      const { lines, answers, droppedLines, droppedAnswers } = project
      if (lines.length + answers.length + droppedAnswers === 0) {
        if (isIdle(project, limits)) projects.delete(projectId)
        return
      }
      allAnswers -= answers.length
      Object.assign(project, { lines: [], lineBytes: 0, answers: [], droppedAnswers: 0 })
      const last = lines.at(-1)
      if (last && droppedLines > 0) {
        project.droppedLines = 0
        lines.push(droppedLine(last, droppedLines, limits.linesPerSecond))
      }
      return { lines, answers, droppedAnswers }
    },

    putBack(projectId, batch) {
      const project = projectOf(projectId)
      project.lines = [...batch.lines, ...project.lines]
      project.lineBytes = project.lines.reduce((sum, { message }) => sum + message.length, 0)
      const others = allAnswers - project.answers.length
      const room = Math.max(0, Math.min(limits.answers, limits.allAnswers - others))
      const all = [...batch.answers, ...project.answers]
      project.answers = all.slice(0, room)
      project.droppedAnswers += batch.droppedAnswers + all.length - project.answers.length
      allAnswers = others + project.answers.length
    },
  }
}

/** A project without traffic is forgotten once its allowance for lines is full again. */
function isIdle(
  { droppedLines, allowance, refilledAt }: Project,
  { lineBurst, linesPerSecond }: WaitingLimits,
): boolean {
  if (droppedLines > 0) return false
  return allowance + ((performance.now() - refilledAt) / 1000) * linesPerSecond >= lineBurst
}

const droppedLine = ({ source, name, at }: LogLine, count: number, perSecond: number): LogLine => ({
  source,
  name,
  at,
  level: 'warn',
  event: 'output',
  message: `${count} lines were dropped, because the project logs more than ${perSecond} lines a second`,
  request_id: null,
  facts: {},
})

/** All of a batch in the order of time. A notice is the last. */
export function itemsOf({ lines, answers, droppedAnswers }: Batch): LogItem[] {
  const items: LogItem[] = []
  let next = 0
  for (const line of lines) {
    const at = Date.parse(line.at)
    while (next < answers.length && answers[next]!.at < at) items.push(answers[next++]!)
    items.push(line)
  }
  while (next < answers.length) items.push(answers[next++]!)
  if (droppedAnswers > 0) items.push({ at: answers.at(-1)?.at ?? Date.now(), dropped: droppedAnswers })
  return items
}
