// Commands about the files of a project.
import type { Command, Flag } from '../command.ts'

const recursive: Flag = { name: 'recursive', short: 'r', summary: 'Everything below, too' }

export const storageCommands: readonly Command[] = [
  {
    path: 'storage ls',
    summary: 'List the buckets, or the files and folders at an address',
    operands: [
      {
        name: 'address',
        summary: 'ss:///bucket or ss:///bucket/folder; the buckets when left out',
        isOptional: true,
      },
    ],
    flags: [recursive],
    examples: ['plinth storage ls', 'plinth storage ls ss:///media/photos -r'],
    load: () => import('../commands/storage.ts').then(module => module.list),
  },
  {
    path: 'storage cp',
    summary: 'Copy files to a project, from it, or within it; what is there is replaced',
    operands: [
      { name: 'source', summary: 'a path of this machine, or ss:///bucket/path' },
      { name: 'destination', summary: 'the same; with a slash at its end the name is kept' },
    ],
    flags: [
      recursive,
      {
        name: 'content-type',
        value: 'type',
        summary: 'The type to store; by the file’s extension when left out',
      },
      {
        name: 'cache-control',
        value: 'text',
        summary: 'The Cache-Control to serve it with, or its seconds; max-age=3600 when left out',
      },
      { name: 'jobs', short: 'j', value: 'number', summary: 'How many files at once; 4 when left out' },
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
    summary: 'Remove files; with -r folders and whole buckets',
    operands: [{ name: 'addresses', summary: 'ss:///bucket/path, as many as you like', isRest: true }],
    flags: [recursive],
    examples: ['plinth storage rm ss:///media/logo.png', 'plinth storage rm -r ss:///media/docs --yes'],
    load: () => import('../commands/storage-remove.ts').then(module => module.remove),
  },
  {
    path: 'storage mb',
    summary: 'Make a bucket; private unless --public',
    operands: [{ name: 'address', summary: 'ss:///bucket' }],
    flags: [
      { name: 'public', summary: 'Whoever has the URL of a file may read it' },
      { name: 'file-size-limit', value: 'size', summary: 'The largest file it takes, such as 20MB' },
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
