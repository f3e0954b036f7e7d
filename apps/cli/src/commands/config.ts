import {
  checkedUrl,
  environmentUrl,
  type Found,
  resolveProject,
  resolveTarget,
  resolveToken,
} from '../connection.ts'
import type { Answer, Context } from '../context.ts'
import { type Link, linkPath, readLink, readTopology, writeLink } from '../directory-config.ts'
import { setting } from '../environment.ts'
import { dataDirectory } from '../local-platform.ts'
import { fields, mask, type Paint, table } from '../print.ts'

export async function set(context: Context): Promise<Answer> {
  const { key, value } = context.given.operands
  if (key === 'url') return linked(context, relink(context, checkedUrl(value!, 'config set')))
  const project_id = await asProjectId(context, value!)
  return linked(context, writeLink(context.cwd, { project_id }))
}

export async function link(context: Context): Promise<Answer> {
  const { cwd, given } = context
  const named = given.operands['target']!
  const isUrl = /^https?:\/\//i.test(named) && !readTopology(cwd).has(named)
  const url = checkedUrl(isUrl ? named : environmentUrl(cwd, named), isUrl ? 'link' : `environment ${named}`)
  const project = given.values['project']
  const project_id = project === undefined ? undefined : await asProjectId(context, project, url)
  const link = relink(context, url)
  return linked(context, project_id === undefined ? link : writeLink(cwd, { project_id }))
}

/** Another platform does not know the project that was linked before. */
function relink({ cwd, screen }: Context, url: string): Link {
  const before = readLink(cwd)
  const isElsewhere = before.url !== null && before.url !== url
  if (isElsewhere && before.project_id)
    screen.warn(`Project ${before.project_id} is no longer linked, because it is on ${before.url}.`)
  return writeLink(cwd, { url, project_id: isElsewhere ? null : before.project_id })
}

function linked({ cwd }: Context, link: Link): Answer {
  return {
    data: link,
    text: paint =>
      `Wrote ${linkPath(cwd)}\n${fields(paint, [
        ['url', link.url],
        ['project', link.project_id],
      ])}`,
  }
}

/** An id is used as it is; a slug is looked up on the platform. */
async function asProjectId(context: Context, named: string, url?: string): Promise<string> {
  const { idOf, isId } = await import('../project.ts')
  if (isId(named)) return named.toLowerCase()
  const { connect } = await import('../platform.ts')
  const target = url ? { url, connectUrl: url, origin: 'link', isDefault: false } : resolveTarget(context)
  return idOf(named, connect(context, target))
}

interface Entry {
  key: string
  value: string | null
  origin: string | null
}

export async function get(context: Context): Promise<Answer> {
  const key = context.given.operands['key'] ?? 'url'
  const found = entries(context).find(entry => entry.key === key)
  const value = found?.origin === 'default' ? null : (found?.value ?? null)
  if (value === null)
    context.screen.warn(`No ${key} is configured: plinth config set ${key} <value> stores one.`)
  return { data: { key, value }, text: () => value ?? '' }
}

export async function show(context: Context): Promise<Answer> {
  const found = entries(context)
  const withOrigin = context.given.switches.has('origin')
  const text = (paint: Paint) =>
    withOrigin
      ? table(
          paint,
          ['SETTING', 'VALUE', 'FROM'],
          found.map(({ key, value, origin }) => [key, value, origin]),
        )
      : fields(
          paint,
          found.map(({ key, value }) => [key, value] as const),
        )
  const data = found.map(({ key, value, origin }) => [key, withOrigin ? { value, origin } : value])
  return { data: Object.fromEntries(data), text }
}

function entries(context: Context): Entry[] {
  const target = resolveTarget(context)
  const token = resolveToken(context, target)
  const dataDir = setting(context.environment, 'PLATFORM_DATA_DIR') ? 'PLATFORM_DATA_DIR' : 'default'
  return [
    { key: 'url', value: target.url, origin: target.origin },
    entry('project', resolveProject(context, target)),
    entry('token', token && { value: mask(token.value), origin: token.origin }),
    { key: 'output', value: context.screen.format, origin: outputOrigin(context) },
    { key: 'data_dir', value: dataDirectory(context), origin: dataDir },
  ]
}

const entry = (key: string, found: Found<string> | null): Entry => ({
  key,
  value: found?.value ?? null,
  origin: found?.origin ?? null,
})

function outputOrigin({ given, environment, screen }: Context): string {
  if (given.values['output']) return '--output'
  if (setting(environment, 'PLATFORM_OUTPUT') === screen.format) return 'PLATFORM_OUTPUT'
  return screen.isTerminal ? 'a terminal' : 'no terminal'
}
