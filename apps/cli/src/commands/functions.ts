// Lists, creates, rolls back and deletes functions.
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ReplyError } from '@plinth/contract/client.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { checkedName, functionsFolder } from '../functions/folder.ts'
import { everyPage } from '../page.ts'
import type { Platform } from '../platform.ts'
import { minute, table } from '../print.ts'
import { openProject } from '../project.ts'

export async function list(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const functions = await everyPage(page =>
    platform.functions
      .list({ params: { id }, query: page })
      .then(({ functions: items, total }) => ({ items, total })),
  )
  return {
    data: { functions, total: functions.length },
    hints:
      functions.length === 0
        ? [
            'No functions yet: plinth functions new <name> writes one, plinth functions deploy <name> deploys it.',
          ]
        : [],
    text: paint =>
      functions.length === 0
        ? ''
        : table(
            paint,
            ['NAME', 'VERSION', 'VERIFY JWT', 'UPDATED'],
            functions.map(each => [
              each.name,
              each.version,
              each.verify_jwt ? 'yes' : 'no',
              minute(each.updated_at),
            ]),
          ),
  }
}

const example = (name: string) => `// Try it:  plinth functions serve --no-verify-jwt
//          curl http://127.0.0.1:8888/functions/v1/${name} -d '{"name":"Ann"}'
Deno.serve(async request => {
  const { name = 'world' } = await request.json().catch(() => ({}))
  return Response.json({ message: \`Hello \${name}!\` })
})
`

export async function create({ cwd, given }: Context): Promise<Answer> {
  const name = checkedName(given.operands['name']!)
  const folder = join(functionsFolder(cwd), name)
  const file = join(folder, 'index.ts')
  try {
    await mkdir(join(cwd, folder), { recursive: true })
    if ((await readdir(join(cwd, folder))).length > 0) throw folderExists(folder)
    await writeFile(join(cwd, file), example(name), { flag: 'wx' })
  } catch (cause) {
    if (cause instanceof Failure) throw cause
    throw new Failure(
      'file_unwritable',
      `${file} cannot be written: ${(cause as Error).message}.`,
      null,
      cause,
    )
  }
  return {
    data: { name, path: file },
    text: () => `Created ${file}`,
    hints: [`Run it here with plinth functions serve, and deploy it with plinth functions deploy ${name}.`],
  }
}

const folderExists = (folder: string) =>
  new Failure(
    'folder_exists',
    `${folder} exists already and is not empty.`,
    'Choose another name, or remove the folder.',
  )

export async function rollback(context: Context): Promise<Answer> {
  const { operands } = context.given
  const name = checkedName(operands['name']!)
  const version = versionIn(operands['version']!)
  const { platform, id } = await openProject(context)
  try {
    const deployed = await platform.functions.rollback({ params: { id, name }, body: { version } })
    return {
      data: { ...deployed, code_of_version: version },
      text: () => `Version ${deployed.version} of ${name} runs the code of version ${version}.`,
    }
  } catch (error) {
    if (error instanceof ReplyError && error.code === 'function_version_not_found')
      throw await unknownVersion(platform, id, name, version)
    throw error
  }
}

function versionIn(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new Failure(
    'usage_invalid_value',
    `<version> cannot be "${text}": it must be the number of a previous version.`,
    'plinth functions list shows the current version.',
  )
}

async function unknownVersion(
  platform: Platform,
  id: string,
  name: string,
  version: number,
): Promise<Failure> {
  const { versions } = await platform.functions.read({ params: { id, name } })
  return new Failure(
    'function_version_not_found',
    `${name} has no version ${version}, or it is no longer kept.`,
    `Choose one of ${versions.map(each => each.version).join(', ')}.`,
  )
}

export async function remove(context: Context): Promise<Answer> {
  const { given, screen } = context
  const name = checkedName(given.operands['name']!)
  if (!given.switches.has('yes')) {
    if (!screen.isInteractive)
      throw new Failure(
        'confirmation_missing',
        `Deleting ${name} needs a confirmation, and there is no terminal to ask for it.`,
        'Run it again with --yes.',
      )
    await confirm(context, name)
  }
  const { platform, id } = await openProject(context)
  await platform.functions.remove({ params: { id, name } })
  return { data: { project_id: id, name, deleted: true }, text: () => `Deleted ${name}.` }
}

async function confirm(context: Context, name: string): Promise<void> {
  const { ask } = await import('../prompt.ts')
  context.screen.hint(`${name}: its code, all its versions and its logs will be deleted permanently.`)
  const typed = await ask(context, 'Delete it? [y/N] ')
  if (!/^y(es)?$/i.test(typed.trim()))
    throw new Failure('confirmation_mismatch', 'Nothing was deleted.', 'Answer y, or run it with --yes.')
}
