/** URLs that must never lead to a connection. `{port}` stands for the port of the canaries. */
export type HostileUrl = {
  readonly spelling: string;
  readonly why: string;
  /** What the DNS of the test says of the name: addresses, or a name for a CNAME. */
  readonly dns?: readonly string[];
  /** In a Location header it cannot be sent, or means a path of the server that sends it. */
  readonly asLocation?: 'unsendable' | 'stays';
};

function group(why: string, ...spellings: string[]): HostileUrl[] {
  return spellings.map((spelling) => ({ spelling, why }));
}

function hosts(why: string, ...names: string[]): HostileUrl[] {
  return names.map((name) => ({ spelling: `http://${name}:{port}/`, why }));
}

const V4 = [
  ...hosts('this network', '0.0.0.0', '0.0.0.1', '0.128.0.0', '0.255.255.255'),
  ...hosts('private', '10.0.0.0', '10.0.0.1', '10.128.3.4', '10.255.255.255'),
  ...hosts('private', '172.16.0.0', '172.17.0.1', '172.31.255.255', '192.168.0.0', '192.168.1.1', '192.168.255.255'),
  ...hosts('CGNAT', '100.64.0.0', '100.100.1.1', '100.127.255.255'),
  ...hosts('loopback', '127.0.0.0', '127.0.0.1', '127.0.0.53', '127.128.0.1', '127.255.255.255'),
  ...hosts('link-local', '169.254.0.0', '169.254.0.1', '169.254.255.255'),
  ...hosts('metadata', '169.254.169.254', '169.254.170.2', '100.100.100.200', '192.0.0.192', '168.63.129.16'),
  ...hosts('protocol assignments', '192.0.0.0', '192.0.0.8', '192.0.0.255'),
  ...hosts('documentation', '192.0.2.0', '192.0.2.255', '198.51.100.1', '203.0.113.0', '203.0.113.255'),
  ...hosts('AS112, AMT, relays', '192.31.196.1', '192.52.193.1', '192.88.99.1', '192.175.48.255'),
  ...hosts('benchmarking', '198.18.0.0', '198.19.255.255'),
  ...hosts('multicast', '224.0.0.1', '233.252.0.1', '239.255.255.255'),
  ...hosts('reserved', '240.0.0.0', '250.1.2.3', '255.255.255.254', '255.255.255.255'),
];

const SPELLINGS_OF_LOOPBACK = [
  ...hosts('decimal', '2130706433', '2130706434', '4294967295', '0', '00', '1'),
  ...hosts('octal', '017700000001', '0177.0.0.1', '0177.0.0.01', '0000177.00.000.0001'),
  ...hosts('hexadecimal', '0x7f000001', '0X7F000001', '0x7f.0x0.0x0.0x1', '0x0000007f.0.0.1', '0x7f.1', '0x'),
  ...hosts('mixed', '0177.0.0x0.1', '127.0x0.1', '0x7f.0.01'),
  ...hosts('short', '127.1', '127.0.1', '127.65535', '10.1', '169.16689662'),
  ...hosts('full width', '１２７.0.0.1', '１２７．０．０．１', '０x７f.1'),
  ...hosts('circled', '①②⑦.⓪.⓪.①', '⑯⑨.254.①⑥⑨.254'),
  ...hosts('superscript and mathematical', '¹²⁷.0.0.1', '𝟏𝟐𝟕.𝟎.𝟎.𝟏'),
  ...hosts('ideographic full stop', '127。0。0。1', '127｡0｡0｡1'),
  ...hosts('percent-encoded', '127%2e0%2e0%2e1', '%31%32%37.0.0.1', '%6c%6f%63%61%6c%68%6f%73%74', '127.0.0.1%20'),
  ...hosts('dot at the end', '127.0.0.1.', '0x7f.1.', '2130706433.'),
  ...hosts('dots at the end', '127.0.0.1..', '127..0.0.1', '.127.0.0.1'),
  ...hosts('soft hyphen and zero width', '127.0.0.\u00ad1', '127.0.\u200b0.1', 'local\u00adhost'),
];

const V6 = [
  ...hosts('unspecified', '[::]', '[0:0:0:0:0:0:0:0]', '[0000::0000]'),
  ...hosts('loopback', '[::1]', '[0:0:0:0:0:0:0:1]', '[0000:0000:0000:0000:0000:0000:0000:0001]', '[::0.0.0.1]', '[0::1]'),
  ...hosts('mapped, dotted', '[::ffff:127.0.0.1]', '[::FFFF:127.0.0.1]', '[0:0:0:0:0:ffff:10.0.0.1]'),
  ...hosts('mapped, dotted', '[::ffff:192.168.0.1]', '[::ffff:172.16.0.1]', '[::ffff:169.254.169.254]', '[::ffff:0.0.0.0]'),
  ...hosts('mapped, hexadecimal', '[::ffff:7f00:1]', '[::ffff:a00:1]', '[::ffff:c0a8:1]', '[::ffff:a9fe:a9fe]'),
  ...hosts('mapped, of a public address', '[::ffff:93.184.216.34]', '[::ffff:0808:0808]'),
  ...hosts('compatible', '[::127.0.0.1]', '[::7f00:1]', '[::10.0.0.1]', '[::808:808]'),
  ...hosts('translated', '[::ffff:0:127.0.0.1]', '[::ffff:0:7f00:1]'),
  ...hosts('NAT64', '[64:ff9b::127.0.0.1]', '[64:ff9b::7f00:1]', '[64:ff9b::a9fe:a9fe]', '[64:ff9b:1::7f00:1]', '[64:ff9b::808:808]'),
  ...hosts('discard', '[100::]', '[100::1]', '[100:0:0:1::1]'),
  ...hosts('Teredo', '[2001::1]', '[2001:0:4136:e378:8000:63bf:80ff:fffe]', '[2001:0000:7f00:1::]'),
  ...hosts('protocol assignments', '[2001:2::1]', '[2001:10::1]', '[2001:20::1]', '[2001:1ff:ffff::1]'),
  ...hosts('documentation', '[2001:db8::1]', '[2001:DB8:ffff::]', '[3fff::1]', '[3fff:fff:ffff::1]'),
  ...hosts('6to4', '[2002:7f00:1::]', '[2002:a9fe:a9fe::1]', '[2002:a00:1::1]', '[2002:808:808::1]'),
  ...hosts('AS112', '[2620:4f:8000::1]'),
  ...hosts('segment routing', '[5f00::1]'),
  ...hosts('unique local', '[fc00::1]', '[fd00::1]', '[fdff:ffff:ffff::1]', '[FD12:3456:789A::1]'),
  ...hosts('metadata', '[fd00:ec2::254]', '[fd20:ce::254]'),
  ...hosts('link-local', '[fe80::1]', '[febf:ffff::1]', '[fe80::a9fe:a9fe]'),
  ...hosts('site-local', '[fec0::1]', '[feff::1]'),
  ...hosts('multicast', '[ff02::1]', '[ff0e::1]', '[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]'),
  ...hosts('never given out', '[1::1]', '[4000::1]', '[8000::]', '[e000::1]'),
  ...hosts('zone', '[fe80::1%25lo]', '[::1%25lo]', '[::1%lo]', '[fe80::1%25eth0]'),
  ...hosts('bad brackets', '[::1', '::1', '[127.0.0.1]', '[[::1]]', '[::1]x', '[:::1]', '[::ffff:127.1]'),
];

const TRICKS: HostileUrl[] = [
  ...group('credentials', 'http://a@127.0.0.1:{port}/', 'http://example.com@127.0.0.1:{port}/', 'http://a:b@127.0.0.1:{port}/'),
  ...group('credentials', 'http://93.184.216.34@127.0.0.1:{port}/', 'http://a@b@127.0.0.1:{port}/', 'https://user:p%40ss@public.test/'),
  ...group('empty credentials', 'http://@127.0.0.1:{port}/', 'http://:@127.0.0.1:{port}/'),
  ...group('fragment as a host', 'http://127.0.0.1:{port}#@public.test/', 'http://127.0.0.1:{port}/?@public.test/'),
  ...group('backslash', 'http:\\\\127.0.0.1:{port}\\', 'http://public.test\\@127.0.0.1:{port}/', 'http:/\\127.0.0.1:{port}/'),
  ...group('backslash', 'http://127.0.0.1:{port}\\@public.test/', '\\\\127.0.0.1:{port}\\'),
  ...group('slashes', 'http:/127.0.0.1:{port}/', 'http:///127.0.0.1:{port}/', 'http:////127.0.0.1:{port}/', '//127.0.0.1:{port}/'),
  ...group('no slashes', 'http:127.0.0.1:{port}/', 'https:127.0.0.1:{port}/'),
  ...group('tab', 'http://127.0.\t0.1:{port}/', 'ht\ttp://127.0.0.1:{port}/', 'http://127.0.0.1\t:{port}/'),
  ...group('space', ' http://127.0.0.1:{port}/', 'http://127.0.0.1:{port}/ ', 'http://127.0.0.1 :{port}/', 'http:// 127.0.0.1:{port}/'),
  ...group('newline', 'http://127.0.\n0.1:{port}/', 'http://127.0.0.1\r\n:{port}/', 'http://public.test/\nHost: 127.0.0.1').map((url) => ({
    ...url,
    asLocation: 'unsendable' as const,
  })),
  { spelling: 'http://127.0.0.1\u0000.public.test:{port}/', why: 'zero byte', asLocation: 'unsendable' },
  ...group('no scheme', '127.0.0.1:{port}', '127.0.0.1', '/hook').map((url) => ({
    ...url,
    asLocation: 'stays' as const,
  })),
  ...group('a name that looks like a scheme', 'localhost:{port}', 'localhost:{port}/http://public.test'),
  ...group(
    'other schemes',
    'file:///etc/passwd',
    'file://127.0.0.1/etc/passwd',
    'gopher://127.0.0.1:{port}/_x',
    'dict://127.0.0.1:{port}/',
  ),
  ...group('other schemes', 'ftp://127.0.0.1:{port}/', 'data:text/plain,hello', 'javascript:alert(1)', 'ws://127.0.0.1:{port}/'),
  ...group('other schemes', 'ldap://127.0.0.1:{port}/', 'unix:/var/run/docker.sock', 'jar:http://127.0.0.1!/', 'blob:http://127.0.0.1/x'),
  ...group('other schemes', 'http+unix://%2Fvar%2Frun%2Fdocker.sock/', 'httpx://127.0.0.1:{port}/', 'view-source:http://127.0.0.1/'),
  ...group(
    'ports of other protocols',
    'http://public.test:22/',
    'http://public.test:25/',
    'https://public.test:587/',
    'http://public.test:6667/',
  ),
  ...group('ports of other protocols', 'http://127.0.0.1:22/', 'http://127.0.0.1:6379/', 'http://127.0.0.1:5432/', 'http://localhost:25/'),
  ...group(
    'ports that are none',
    'http://public.test:0/',
    'http://public.test:65536/',
    'http://public.test:-1/',
    'http://public.test:80a/',
  ),
  ...group('ports that are none', 'http://127.0.0.1:{port}{port}/', 'http://public.test:{port}@127.0.0.1/', 'http://127.0.0.1:１/'),
  ...group('no host', 'http://', 'https://', 'http://:{port}/', 'http://./', 'http://../', 'http://?', 'http://#', 'http://%00/'),
  ...group('too long', `http://public.test/${'a'.repeat(2_030)}`, `http://${'a.'.repeat(130)}test/`, `http://${'a'.repeat(64)}.test/`),
  ...group('letters that are no name', 'http://a b.test/', 'http://a^b.test/', 'http://a|b.test/', "http://a'b.test/", 'http://a*.test/'),
  ...group('half a character', 'http://127.0.0.1:{port}/\ud800', 'http://\udfff.test/'),
  { spelling: '', why: 'empty', asLocation: 'stays' },
];

const NAMES: HostileUrl[] = [
  ...hosts('this machine', 'localhost', 'LOCALHOST', 'localhost.', 'x.localhost', 'a.b.LocalHost', 'public.test.localhost'),
  ...hosts('IDN of this machine', 'ⓛⓞⓒⓐⓛⓗⓞⓢⓣ', 'ｌｏｃａｌｈｏｓｔ', 'loc𝐚lhost', 'LOCALHOST。'),
  named('127.0.0.1.nip.test', ['127.0.0.1']),
  named('7f000001.nip.test', ['127.0.0.1']),
  named('metadata.google.internal', ['169.254.169.254']),
  named('instance-data', ['169.254.169.254']),
  named('kubernetes.default.svc', ['10.96.0.1']),
  named('host.docker.internal', ['172.17.0.1']),
  named('one-bad-among-good.test', ['93.184.216.34', '93.184.216.35', '10.0.0.1', '93.184.216.36']),
  named('bad-last.test', [...Array.from({ length: 12 }, (_, n) => `93.184.216.${n}`), '127.0.0.1']),
  named('bad-first.test', ['127.0.0.1', '93.184.216.34']),
  named('good-a-bad-aaaa.test', ['93.184.216.34', '::1']),
  named('bad-a-good-aaaa.test', ['127.0.0.1', '2606:2800:220:1::1']),
  named('only-aaaa.test', ['::1']),
  named('mapped.test', ['::ffff:127.0.0.1']),
  named('mapped-beside-good.test', ['93.184.216.34', '::ffff:7f00:1']),
  named('compatible.test', ['::7f00:1']),
  named('nat64.test', ['64:ff9b::7f00:1']),
  named('sixtofour.test', ['2002:7f00:1::1']),
  named('teredo.test', ['2001:0:4136:e378:8000:63bf:80ff:fffe']),
  named('unique-local.test', ['fd12::1']),
  named('link-local.test', ['fe80::1']),
  named('unspecified.test', ['0.0.0.0']),
  named('unspecified6.test', ['::']),
  named('cname.test', ['inside.corp.test', '10.0.0.1']),
  named('cname-chain.test', ['a.test', 'b.test', 'localhost', '127.0.0.1']),
  named('cname-good-and-bad.test', ['cdn.test', '93.184.216.34', '192.168.0.1']),
  named('cgnat.test', ['100.64.0.1']),
  named('broadcast.test', ['255.255.255.255']),
  named('xn--bcher-kva.test', ['127.0.0.1']),
  named('under_score.test', ['127.0.0.1']),
];

function named(name: string, dns: readonly string[]): HostileUrl {
  return { spelling: `http://${name}:{port}/`, why: 'its DNS answers', dns };
}

export const HOSTILE: readonly HostileUrl[] = [...V4, ...SPELLINGS_OF_LOOPBACK, ...V6, ...TRICKS, ...NAMES];
