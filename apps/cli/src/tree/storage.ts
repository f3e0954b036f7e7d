// Commands about the files of a project.
import type { Command, Flag } from '../command.ts'

const recursive: Flag = { name: 'recursive', short: 'r', summary: 'Include everything below' }

export const storageCommands: readonly Command[] = [
  {
    path: 'storage ls',
    summary: 'List the buckets, or the files and folders at an address',
    operands: [
      {
        name: 'address',
        summary: 'ss:///bucket or ss:///bucket/folder; default: list the buckets',
        isOptional: true,
      },
    ],
    flags: [recursive],
    examples: ['plinth storage ls', 'plinth storage ls ss:///media/photos -r'],
    load: () => import('../commands/storage.ts').then(module => module.list),
  },
  {
    path: 'storage cp',
    summary: 'Copy files to a project, from it, or within it; existing files are replaced',
    operands: [
      { name: 'source', summary: 'a local path, or ss:///bucket/path' },
      {
        name: 'destination',
        summary: 'a local path, or ss:///bucket/path; with a slash at the end the file keeps its name',
      },
    ],
    flags: [
      recursive,
      {
        name: 'content-type',
        value: 'type',
        summary: 'The content type; default: by the file’s extension',
      },
      {
        name: 'cache-control',
        value: 'text',
        summary: 'The Cache-Control header or its seconds; default max-age=3600',
      },
      { name: 'jobs', short: 'j', value: 'number', summary: 'How many files at a time; default 4' },
    ],
    examples: [
      'plinth storage cp logo.png ss:///media/',
      'plinth storage cp -r docs ss:///media/docs',
      'plinth storage cp -r ss:///media/docs .',
    ],
    load: () => import('../commands/storage-copy.ts').then(module => module.copy),
  },
  {
    path: 'storage rm',
    summary: 'Remove files; with -r also folders and buckets',
    operands: [{ name: 'addresses', summary: 'one or more of ss:///bucket/path', isRest: true }],
    flags: [recursive],
    examples: ['plinth storage rm ss:///media/logo.png', 'plinth storage rm -r ss:///media/docs --yes'],
    load: () => import('../commands/storage-remove.ts').then(module => module.remove),
  },
  {
    path: 'storage mb',
    summary: 'Create a bucket; private unless --public',
    operands: [{ name: 'address', summary: 'ss:///bucket' }],
    flags: [
      { name: 'public', summary: 'Everyone who has the URL of a file may read it' },
      { name: 'file-size-limit', value: 'size', summary: 'The largest file it accepts, such as 20MB' },
      {
        name: 'allowed-mime-types',
        value: 'types',
        summary: 'Separated by commas, such as image/*,application/pdf',
      },
    ],
    examples: ['plinth storage mb ss:///media --public --file-size-limit 20MB'],
    load: () => import('../commands/storage.ts').then(module => module.makeBucket),
  },
]
