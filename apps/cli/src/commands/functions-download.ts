// Writes the files of a function. Their paths come from whoever deployed it, so each is checked here again.
import { lstat, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Files } from '@plinth/contract/functions.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { checkedName, functionsFolder } from '../functions/folder.ts'
import { clean } from '../print.ts'
import { openProject } from '../project.ts'

export async function download(context: Context): Promise<Answer> {
  const { cwd, given } = context
  const name = checkedName(given.operands['name']!)
  const shown = given.values['path'] ?? join(functionsFolder(cwd), name)
  const root = resolve(cwd, shown)
  const { platform, id } = await openProject(context)
  const { files, version, entrypoint } = await platform.functions.read({ params: { id, name } })
  const paths = Object.keys(files).sort()
  for (const path of paths) checkPath(path)
  const isForced = given.switches.has('force')
  await checkTargets(root, shown, paths, isForced)
  for (const path of paths)
    await write(join(root, path), files[path]!, { shown: join(shown, path), isForced })
  return {
    data: { name, version, entrypoint, path: shown, files: paths },
    text: () => paths.map(path => `Wrote ${clean(join(shown, path))}`).join('\n'),
    hints: [`This is version ${version} of ${name}.`],
  }
}

function checkPath(path: string): void {
  const parts = path.split('/')
  const isSafe =
    !parts.some(part => part === '' || part === '.' || part === '..') &&
    !/[\\\p{Cc}]/u.test(path) &&
    !/^[A-Za-z]:/.test(path)
  if (isSafe) return
  throw new Failure(
    'path_unsafe',
    `The function has a file with the path ${JSON.stringify(path)}, which could be outside of the target.`,
    'Nothing was written. Check who deployed this function.',
  )
}

/** Before anything is written. A symbolic link could lead outside of the target. */
async function checkTargets(
  root: string,
  shown: string,
  paths: readonly string[],
  isForced: boolean,
): Promise<void> {
  const existing: string[] = []
  for (const path of paths) {
    const parts = path.split('/')
    for (const [place] of parts.entries()) {
      const part = parts.slice(0, place + 1).join('/')
      const there = await lstatOf(join(root, part))
      if (!there) break
      const isFile = place === parts.length - 1
      if (there.isSymbolicLink() || (isFile ? !there.isFile() : !there.isDirectory()))
        throw new Failure(
          'file_unwritable',
          `${join(shown, part)} exists and is not a ${isFile ? 'file' : 'folder'}. Nothing was written.`,
          'Remove it, or name another folder with --path.',
        )
      if (isFile) existing.push(join(shown, path))
    }
  }
  if (existing.length === 0 || isForced) return
  const more = existing.length > 5 ? ` and ${existing.length - 5} more` : ''
  throw new Failure(
    'file_exists',
    `${existing.slice(0, 5).join(', ')}${more} would be overwritten. Nothing was written.`,
    'Overwrite with --force, or name another folder with --path.',
  )
}

const lstatOf = (path: string) =>
  lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null
    throw error
  })

async function write(
  target: string,
  content: Files[string],
  { shown, isForced }: { shown: string; isForced: boolean },
): Promise<void> {
  const bytes = typeof content === 'string' ? content : Buffer.from(content.base64, 'base64')
  try {
    await mkdir(dirname(target), { recursive: true })
    await writeFile(target, bytes, { flag: isForced ? 'w' : 'wx' })
  } catch (cause) {
    const why = (cause as Error).message
    throw new Failure('file_unwritable', `${shown} cannot be written: ${why}.`, null, cause)
  }
}
