//! CreateAcls and DeleteAcls of Kafka's protocol (keys 30 and 31, version 1), which rdkafka does not
//! have.

use std::io::{Read, Write};
use std::net::TcpStream;

#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Read = 3,
    Write = 4,
    Create = 5,
    Describe = 8,
    DescribeConfigs = 10,
}

#[derive(Clone, Copy, Debug)]
pub enum Resource<'a> {
    Topic(&'a str),
    Cluster,
}

impl<'a> Resource<'a> {
    fn type_and_name(self) -> (u8, &'a str) {
        match self {
            Self::Topic(name) => (2, name),
            Self::Cluster => (4, "kafka-cluster"),
        }
    }
}

const CREATE_ACLS: i16 = 30;
const DELETE_ACLS: i16 = 31;
const LITERAL: u8 = 3;
const ANY: u8 = 1;
const ALLOW: u8 = 3;

pub fn create(server: &str, user: &str, operation: Operation, resource: Resource<'_>) {
    let mut body = Body::one();
    let (kind, name) = resource.type_and_name();
    body.byte(kind).text(name).byte(LITERAL);
    body.text(&format!("User:{user}")).text("*");
    body.byte(operation as u8).byte(ALLOW);
    ask(server, CREATE_ACLS, &body);
}

pub fn delete(server: &str, user: &str, resource: Resource<'_>) {
    let mut body = Body::one();
    let (kind, name) = resource.type_and_name();
    body.byte(kind).text(name).byte(LITERAL);
    body.text(&format!("User:{user}")).text("*");
    body.byte(ANY).byte(ANY);
    ask(server, DELETE_ACLS, &body);
}

struct Body(Vec<u8>);

impl Body {
    /// An array of one.
    fn one() -> Self {
        Self(1_i32.to_be_bytes().to_vec())
    }

    fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        let length = i16::try_from(text.len()).unwrap();
        self.0.extend(length.to_be_bytes());
        self.0.extend(text.as_bytes());
        self
    }
}

fn ask(server: &str, key: i16, body: &Body) {
    let mut request = Vec::new();
    request.extend(key.to_be_bytes());
    request.extend(1_i16.to_be_bytes());
    // Correlation id, and no client id.
    request.extend(7_i32.to_be_bytes());
    request.extend((-1_i16).to_be_bytes());
    request.extend(&body.0);
    let mut stream = TcpStream::connect(server).unwrap();
    let length = i32::try_from(request.len()).unwrap();
    stream.write_all(&length.to_be_bytes()).unwrap();
    stream.write_all(&request).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut answer).unwrap();
    // Correlation id, throttle time, length of the array, and the first one's error.
    assert_eq!(answer[12..14], [0, 0], "{answer:?}");
}
