// Resolves the project of a command: by id, by slug, by --project, or the linked one.

import { closest } from '@plinth/contract/closest.ts'
import type { Project } from '@plinth/contract/projects.ts'
import { resolveProject, resolveTarget } from './connection.ts'
import type { Context } from './context.ts'
import { Failure } from './failure.ts'
import { connect, type Platform } from './platform.ts'

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
export const isId = (text: string): boolean => uuid.test(text)

/** The platform a command talks to, and the id of the project that its argument `id` or its settings name. */
export async function openProject(
  context: Context,
  target = resolveTarget(context),
): Promise<{ platform: Platform; id: string }> {
  const platform = connect(context, target)
  const named = context.given.operands['id'] ?? resolveProject(context, target)?.value
  if (named) return { platform, id: await idOf(named, platform) }
  throw new Failure(
    'project_missing',
    'No project is given.',
    'Give its id or slug with --project, PLATFORM_PROJECT, or plinth config set project <id>.',
  )
}

export async function idOf(named: string, platform: Platform): Promise<string> {
  if (isId(named)) return named.toLowerCase()
  const projects = await everyProject(platform)
  const found = projects.find(project => project.slug === named)
  if (found) return found.id
  const meant = closest(
    named,
    projects.map(project => project.slug),
  )
  throw new Failure(
    'project_not_found',
    `No project has the slug "${named}".`,
    meant ? `Did you mean ${meant}?` : 'plinth projects list shows the projects.',
  )
}

const pageSize = 100

/** Reads all projects, one page at a time. */
export async function everyProject(platform: Platform, status?: Project['status']): Promise<Project[]> {
  const found: Project[] = []
  for (;;) {
    const query = { limit: pageSize, offset: found.length, ...(status && { status }) }
    const page = await platform.projects.list({ query })
    found.push(...page.projects)
    if (page.projects.length === 0 || found.length >= page.total) return found
  }
}
